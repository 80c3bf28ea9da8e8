#include "signals/stack_parts.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/text.hpp"

namespace lockstep {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_a_librarys(const CodeFrame& frame) {
  return has(frame.file, "/site-packages/") || has(frame.file, "/dist-packages/") ||
         has(frame.file, "/lib/python3") || frame.file.starts_with("<");
}

struct FileSign {
  std::string_view part_of_path;
  StepPart part;
};
// Files of libraries, from the innermost frame outwards: the first that is here decides.
constexpr std::array<FileSign, 20> kFiles = {
    {{"/torch/utils/data/", StepPart::data_wait},
     {"/datasets/", StepPart::data_wait},
     {"/webdataset/", StepPart::data_wait},
     {"/torch/serialization", StepPart::checkpoint},
     {"/safetensors/", StepPart::checkpoint},
     {"/torch/distributed/checkpoint/", StepPart::checkpoint},
     {"/wandb/", StepPart::logging},
     {"/tensorboard", StepPart::logging},
     {"/mlflow/", StepPart::logging},
     {"/comet_ml/", StepPart::logging},
     {"/logging/__init__", StepPart::logging},
     {"/tqdm/", StepPart::logging},
     {"/torch/optim/", StepPart::optimizer},
     {"/torch/autograd/", StepPart::backward},
     {"/torch/_tensor.py", StepPart::backward},
     {"/torch/nn/parallel/", StepPart::forward},
     {"/torch/nn/", StepPart::forward},
     {"/torch/_dynamo/", StepPart::forward},
     {"/torch/_inductor/", StepPart::forward},
     {"/torch/distributed/", StepPart::collective_exposed}}};

struct CallSign {
  std::string_view call;
  StepPart part;
};
constexpr std::array<CallSign, 18> kCalls = {{{"gc.collect", StepPart::gc},
                                              {".item", StepPart::sync},
                                              {".tolist", StepPart::sync},
                                              {".cpu", StepPart::sync},
                                              {".numpy", StepPart::sync},
                                              {"synchronize", StepPart::sync},
                                              {".backward", StepPart::backward},
                                              {"torch.save", StepPart::checkpoint},
                                              {"save_file", StepPart::checkpoint},
                                              {"pickle.dump", StepPart::checkpoint},
                                              {"np.save", StepPart::checkpoint},
                                              {"np.savez", StepPart::checkpoint},
                                              {"print", StepPart::logging},
                                              {"wandb.log", StepPart::logging},
                                              {"logger", StepPart::logging},
                                              {"writer.add", StepPart::logging},
                                              {".to", StepPart::copy},
                                              {".cuda", StepPart::copy}}};

// What people call such functions.
std::optional<StepPart> by_function(std::string_view name) {
  // "Training.evaluate" is no training.
  const std::string word = lower_case(name.substr(name.rfind('.') + 1));
  const auto has_any = [&](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return has(word, part); });
  };
  if (word == "forward") return StepPart::forward;
  if (has_any({"get_batch", "next_batch", "load_batch", "collate"}) || word == "__getitem__")
    return StepPart::data_wait;
  // Loops of the whole training, and passes: "train_and_evaluate", "checkpointed_forward",
  // "log_prob".
  if (has_any({"train", "forward", "gradient", "main", "loss", "prob", "likelihood", "load",
               "resume", "softmax", "sum_exp"}))
    return std::nullopt;
  if (has_any({"evaluat", "validat"})) return StepPart::evaluation;
  if (has_any({"save", "checkpoint"})) return StepPart::checkpoint;
  if (word == "log" || word.starts_with("log_") || word.ends_with("_log") ||
      has_any({"logging", "logger"}))
    return StepPart::logging;
  return std::nullopt;
}

std::optional<StepPart> by_frames(const StackSample& stack) {
  for (const CodeFrame& frame : stack.frames) {
    if (!is_a_librarys(frame)) {
      if (const auto part = by_function(frame.function)) return part;
      continue;
    }
    for (const FileSign& sign : kFiles) {
      if (!has(frame.file, sign.part_of_path)) continue;
      // A progress bar around the loop is on every stack within it.
      if (sign.part_of_path == "/tqdm/" && &frame != &stack.frames.front()) break;
      return sign.part;
    }
  }
  return std::nullopt;
}

}  // namespace

StepPart part_of(const StackSample& stack) {
  // An evaluation holds everything else that happens within it.
  for (const CodeFrame& frame : stack.frames)
    if (!is_a_librarys(frame) && by_function(frame.function) == StepPart::evaluation)
      return StepPart::evaluation;
  std::optional<StepPart> by_call;
  for (const CallSign& sign : kCalls)
    if (stack.call == sign.call) by_call = sign.part;
  if (by_call == StepPart::gc) return StepPart::gc;
  const auto frames = by_frames(stack);
  // A copy to the host within a save, or in the data set, is part of that.
  if (by_call == StepPart::sync && frames != StepPart::data_wait &&
      frames != StepPart::checkpoint && frames != StepPart::logging)
    return StepPart::sync;
  return frames ? *frames : by_call.value_or(StepPart::other);
}

CodePlace place_of(const StackSample& stack) {
  if (stack.frames.empty()) return {};
  const auto own = std::ranges::find_if_not(stack.frames, is_a_librarys);
  const CodeFrame& frame = own != stack.frames.end() ? *own : stack.frames.front();
  // The call is the innermost line's: within a library it says nothing of the user's.
  const bool calls_itself = &frame == &stack.frames.front() && !stack.call.empty();
  return {frame.file, frame.line, calls_itself ? stack.call : frame.function};
}

}  // namespace lockstep
