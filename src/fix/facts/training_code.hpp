// What a script trains with: the code it reaches over its own functions and those it imports by
// name, and the calls in it that matter.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fix/project/project.hpp"

namespace lockstep {

struct Place {
  FileId file = 0;
  std::size_t from = 0;
  std::size_t to = 0;
};
inline Place place_of(FileId file, Node node) { return {file, node.from(), node.to()}; }

struct CallAt {
  FileId file = 0;
  const PythonCall* call = nullptr;
};

struct TrainingCode {
  FileId script = 0;
  std::vector<CallAt> trainers;       // Trainer(...), SFTTrainer(...), and classes made from them
  std::vector<CallAt> arguments;      // TrainingArguments(...) and its like
  std::vector<CallAt> loads;          // from_pretrained(...), from_config(...) of a model
  std::vector<CallAt> accelerators;   // Accelerator(...)
  std::vector<CallAt> wraps;          // DistributedDataParallel(...)
  std::vector<CallAt> joins;          // init_process_group(...)
  std::vector<CallAt> all;            // every call that is reached
  std::set<std::string> environment;  // the variables that are read
  bool trains_with_trainer = false;
  bool trains_with_accelerate = false;
  bool trains_with_ddp = false;
  std::set<FileId> backward_in;   // files with a backward()
  bool parses_arguments = false;  // HfArgumentParser
  std::string starts_itself;      // "mp.spawn": it makes its own processes; empty: it does not
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES as set in the code
  std::optional<Place> pinned;                 // a place that names one GPU, whatever the rank
  bool sees_one_gpu = false;                   // the code hides all but one from itself

  bool trains() const { return trains_with_trainer || trains_with_accelerate || trains_with_ddp; }
  bool knows_of_ranks() const {
    return environment.contains("LOCAL_RANK") || environment.contains("WORLD_SIZE") ||
           environment.contains("RANK");
  }
  // Whether the model that is loaded by this call is one that is trained.
  std::set<std::size_t> trained_loads;  // positions in `loads`
};

TrainingCode training_code(const Project& project, FileId script);

// Where a load's device_map is written when it splits the model: "auto", "balanced" ..., over one
// variable or a dict passed with **.
struct SplitMap {
  Node value;  // the word itself
  std::string word;
  bool direct = false;  // it is an argument of the load, which can be taken away
  bool shared = false;  // others use the same variable or dict
};
std::optional<SplitMap> split_map(const Project& project, const CallAt& load);
// The same where the script chooses by WORLD_SIZE: what plain python takes.
std::optional<SplitMap> split_map_alone(const Project& project, const CallAt& load,
                                        const std::vector<std::string>& arguments);
// A map that is neither None, nor by rank, nor a split that split_map finds: who knows where the
// layers go.
bool has_unsettled_map(const Project& project, const CallAt& load);
// Whether a load is given a map at all; None is none.
inline bool has_map(const CallAt& load) {
  const PythonArgument* const argument = load.call->argument("device_map");
  return argument != nullptr && !is_none(argument->value);
}
// Whether an expression takes the rank, the world size or the like into account.
bool speaks_of_ranks(Node expression);

// Whether code moves tensors to a device: such batches cannot be made by workers, nor pinned.
inline bool moves_to_a_device(std::string_view code) {
  return code.find(".cuda(") != std::string_view::npos ||
         code.find(".to(") != std::string_view::npos;
}

// A file that is started, as far as it shows: it has a main part, or trains as soon as it is read.
bool looks_like_a_script(const SourceFile& file);

}  // namespace lockstep
