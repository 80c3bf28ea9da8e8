#include "traces/host_labels.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/text.hpp"

namespace lockstep {
namespace {

template <std::size_t N>
bool has_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// The names that people give to stretches of their loop with record_function.
std::optional<StepPart> part_of_annotation(std::string_view name) {
  constexpr std::array<std::string_view, 6> kData = {"dataload",   "data_load",      "data load",
                                                     "next_batch", "wait_for_batch", "fetch_batch"};
  constexpr std::array<std::string_view, 3> kCheckpoint = {"checkpoint", "save_model",
                                                           "torch.save"};
  constexpr std::array<std::string_view, 3> kEvaluation = {"evaluat", "validat", "## eval"};
  constexpr std::array<std::string_view, 4> kLogging = {"logging", "log_metrics", "## log",
                                                        "tensorboard"};
  const std::string lower = lower_case(name);
  if (has_one_of(lower, kData)) return StepPart::data_wait;
  if (has_one_of(lower, kCheckpoint) && lower.find("activation") == std::string::npos &&
      lower.find("checkpointfunction") == std::string::npos)
    return StepPart::checkpoint;
  if (has_one_of(lower, kEvaluation)) return StepPart::evaluation;
  if (has_one_of(lower, kLogging)) return StepPart::logging;
  if (lower.find("backward") != std::string::npos) return StepPart::backward;
  if (lower.find("optimizer") != std::string::npos || lower.find("zero_grad") != std::string::npos)
    return StepPart::optimizer;
  if (lower.find("forward") != std::string::npos) return StepPart::forward;
  return std::nullopt;
}

std::optional<StepPart> part_of_python(std::string_view name) {
  constexpr std::array<std::string_view, 8> kLogging = {"logging/__init__.py",
                                                        "tqdm/std.py",
                                                        "tensorboard/writer.py",
                                                        "/wandb/",
                                                        "mlflow/",
                                                        "<built-in function print>",
                                                        "of _io.TextIOWrapper",
                                                        "csv.writer"};
  constexpr std::array<std::string_view, 4> kCheckpoint = {
      "torch/serialization.py", "safetensors/", "torch/distributed/checkpoint/", "save_pretrained"};
  if (has_one_of(name, kLogging)) return StepPart::logging;
  if (has_one_of(name, kCheckpoint)) return StepPart::checkpoint;
  if (name.find("torch/utils/data/dataloader.py") != std::string_view::npos &&
      name.find("__next__") != std::string_view::npos)
    return StepPart::data_wait;
  if (name == "<built-in function collect>" || name.find("gc.collect") != std::string_view::npos)
    return StepPart::gc;
  return std::nullopt;
}

// Calls that stop the host for reasons of their own: memory, modules, streams. They are nobody's
// pace of launching.
bool is_rare_call(std::string_view name) {
  constexpr std::array<std::string_view, 9> kRare = {
      "cudaMalloc", "cudaFree",    "cudaHostAlloc", "cudaHostRegister", "cudaStreamCreate",
      "ModuleLoad", "LibraryLoad", "hipMalloc",     "hipFree"};
  return has_one_of(name, kRare);
}

bool is_wait_name(std::string_view name) {
  return name.find("Synchronize") != std::string_view::npos &&
         name.find("StreamCreate") == std::string_view::npos;
}

// What is asked of a name once.
struct NameLabel {
  std::optional<StepPart> part;
  bool copies = false;  // an operator that moves a tensor: a wait within it waits for the copy
  bool waits = false;
  bool is_mark = false;  // stands around what is done, and is nothing of it
};

std::vector<NameLabel> label_names(const RankTrace& trace) {
  std::vector<NameLabel> labels(trace.names.size());
  std::vector<bool> done(trace.names.size());
  for (const HostRow& row : trace.host_rows) {
    if (done[row.name]) continue;
    done[row.name] = true;
    const std::string_view name = trace.names[row.name];
    const bool rare = row.category == TraceCategory::runtime && is_rare_call(name);
    labels[row.name] = {
        rare ? StepPart::other : part_of_name(name, row.category),
        row.category == TraceCategory::op &&
            (name == "aten::copy_" || name == "aten::_to_copy" || name == "aten::to"),
        row.category == TraceCategory::runtime && is_wait_name(name),
        row.category == TraceCategory::annotation ||
            name.starts_with("DistributedDataParallel.forward")};
  }
  return labels;
}

// Who trains: the thread of the step's own marks, else the one that launches most.
std::uint32_t find_main_thread(const RankTrace& trace) {
  std::vector<std::uint64_t> marks(trace.threads.size());
  std::vector<std::uint64_t> launches(trace.threads.size());
  for (const HostRow& row : trace.host_rows) {
    if (row.category == TraceCategory::runtime) ++launches[row.thread];
    if (row.category != TraceCategory::annotation && row.category != TraceCategory::op) continue;
    const std::string_view name = trace.names[row.name];
    if (name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.step#") ||
        name.starts_with("enumerate(DataLoader)"))
      ++marks[row.thread];
  }
  const auto most = [](const std::vector<std::uint64_t>& counts) {
    return static_cast<std::uint32_t>(std::ranges::max_element(counts) - counts.begin());
  };
  if (trace.threads.empty()) return 0;
  const std::uint32_t marked = most(marks);
  return marks[marked] > 0 ? marked : most(launches);
}

class ThreadSweep {
 public:
  ThreadSweep(const RankTrace& trace, const std::vector<NameLabel>& labels, bool is_main,
              std::vector<HostSegment>& segments)
      : trace_(trace),
        labels_(labels),
        own_operators_(is_main ? StepPart::forward : StepPart::backward),
        segments_(segments) {}

  void row(std::uint32_t index) {
    const HostRow& row = trace_.host_rows[index];
    close_until(row.start_ns);
    Open next;
    next.end = row.end_ns();
    if (!open_.empty()) {
      // rows of one thread nest; what sticks out is the clock's
      next.end = std::min(next.end, open_.back().end);
      next.part = open_.back().part;
      next.decided_by = open_.back().decided_by;
      next.in_copy = open_.back().in_copy;
    }
    const NameLabel& label = labels_[row.name];
    next.in_copy = next.in_copy || label.copies;
    std::optional<StepPart> part = label.part;
    if (label.waits)
      part = next.in_copy && next.part != StepPart::sync ? StepPart::copy : StepPart::sync;
    if (!part && row.category == TraceCategory::op && !next.part) part = own_operators_;
    // A loader that works on this thread, and a save, stay what they are whatever they call.
    const bool keeps = next.part == StepPart::data_wait || next.part == StepPart::checkpoint ||
                       next.part == StepPart::evaluation || next.part == StepPart::logging;
    if (part && !keeps) {
      next.part = part;
      next.decided_by = index;
    }
    next.is_mark = label.is_mark;
    emit(row.start_ns);
    open_.push_back(next);
    from_ = row.start_ns;
  }

  void finish() { close_until(INT64_MAX); }

 private:
  struct Open {
    std::int64_t end = 0;
    std::optional<StepPart> part;
    std::uint32_t decided_by = kNoRow;
    bool in_copy = false;
    bool is_mark = false;
  };

  void close_until(std::int64_t time) {
    while (!open_.empty() && open_.back().end <= time) {
      emit(open_.back().end);
      from_ = open_.back().end;
      open_.pop_back();
    }
  }

  void emit(std::int64_t until) {
    if (open_.empty() || until <= from_) return;
    const Open& top = open_.back();
    StepPart part = top.part.value_or(StepPart::other);
    // Within a pass, and for longer than Python takes between two operators: whatever the host does
    // there, it launches nothing. (In a backward pass it waits for autograd's thread, which does.)
    constexpr std::int64_t kSilenceNs = 5'000'000;
    const bool launches_here = part == StepPart::forward || part == StepPart::optimizer;
    if (top.is_mark && launches_here && until - from_ >= kSilenceNs) part = StepPart::other;
    if (!segments_.empty() && segments_.back().end_ns == from_ && segments_.back().part == part &&
        segments_.back().row == top.decided_by)
      segments_.back().end_ns = until;
    else
      segments_.push_back({from_, until, part, top.decided_by});
  }

  const RankTrace& trace_;
  const std::vector<NameLabel>& labels_;
  StepPart own_operators_;
  std::vector<HostSegment>& segments_;
  std::vector<Open> open_;
  std::int64_t from_ = 0;
};

}  // namespace

std::optional<StepPart> part_of_name(std::string_view name, TraceCategory category) {
  if (category == TraceCategory::python) return part_of_python(name);
  if (category != TraceCategory::op && category != TraceCategory::annotation) return std::nullopt;
  if (name.starts_with("enumerate(DataLoader)")) return StepPart::data_wait;
  if (name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#"))
    return StepPart::optimizer;
  if (name.starts_with("autograd::engine::evaluate_function")) return StepPart::backward;
  if (name.starts_with("DistributedDataParallel.forward")) return StepPart::forward;
  if (name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::is_nonzero")
    return StepPart::sync;
  if (name.starts_with("ProfilerStep#") || name.starts_with("nccl:") || name.starts_with("gloo:"))
    return std::nullopt;
  return category == TraceCategory::annotation ? part_of_annotation(name) : std::nullopt;
}

HostLabels::HostLabels(const RankTrace& trace)
    : main_thread_(find_main_thread(trace)), segments_(trace.threads.size()) {
  const std::vector<NameLabel> labels = label_names(trace);
  std::vector<std::vector<std::uint32_t>> rows(trace.threads.size());
  for (std::uint32_t i = 0; i < trace.host_rows.size(); ++i)
    if (trace.host_rows[i].duration_ns > 0) rows[trace.host_rows[i].thread].push_back(i);
  const auto outer_first = [&](std::uint32_t a, std::uint32_t b) {
    const HostRow& left = trace.host_rows[a];
    const HostRow& right = trace.host_rows[b];
    return left.start_ns != right.start_ns ? left.start_ns < right.start_ns
                                           : left.duration_ns > right.duration_ns;
  };
  for (std::uint32_t thread = 0; thread < rows.size(); ++thread) {
    if (!std::ranges::is_sorted(rows[thread], outer_first))
      std::ranges::stable_sort(rows[thread], outer_first);
    ThreadSweep sweep(trace, labels, thread == main_thread_, segments_[thread]);
    for (const std::uint32_t row : rows[thread]) sweep.row(row);
    sweep.finish();
  }
}

std::vector<HostSegment>::const_iterator HostLabels::first_ending_after(
    std::int64_t time_ns) const {
  const std::vector<HostSegment>& segments = segments_[main_thread_];
  return std::ranges::upper_bound(segments, time_ns, {}, &HostSegment::end_ns);
}

const HostSegment* HostLabels::covering(std::uint32_t thread, std::int64_t time_ns,
                                        std::int64_t& next_begin) const {
  if (thread >= segments_.size()) return nullptr;
  const std::vector<HostSegment>& segments = segments_[thread];
  const auto behind = std::ranges::upper_bound(segments, time_ns, {}, &HostSegment::begin_ns);
  if (behind != segments.end()) next_begin = std::min(next_begin, behind->begin_ns);
  if (behind == segments.begin() || std::prev(behind)->end_ns <= time_ns) return nullptr;
  return &*std::prev(behind);
}

HostSegment HostLabels::at(std::uint32_t thread, std::int64_t time_ns) const {
  std::int64_t next_begin = INT64_MAX;
  const HostSegment* const own = covering(thread, time_ns, next_begin);
  if (own != nullptr && (own->part != StepPart::other || thread == main_thread_)) return *own;
  const std::int64_t own_end = own != nullptr ? own->end_ns : next_begin;
  HostSegment result{time_ns, own_end, StepPart::other, kNoRow};
  if (thread == main_thread_) return result;
  std::int64_t next_of_main = INT64_MAX;
  if (const HostSegment* const main = covering(main_thread_, time_ns, next_of_main)) {
    result = *main;
    result.end_ns = std::min(result.end_ns, own_end);
  } else {
    result.end_ns = std::min(own_end, next_of_main);
  }
  return result;
}

std::optional<PythonLine> own_line(std::string_view frame) {
  constexpr std::array<std::string_view, 3> kLibraries = {"site-packages/", "dist-packages/",
                                                          "/lib/python"};
  // Kineto's Python rows leave the folder of installed packages out.
  constexpr std::array<std::string_view, 7> kBegins = {
      "torch/", "<", "runpy.py", "threading.py", "contextlib.py", "functools.py", "transformers/"};
  const std::size_t open = frame.find(".py(");
  if (open == std::string_view::npos || has_one_of(frame, kLibraries)) return std::nullopt;
  if (std::ranges::any_of(kBegins,
                          [&](std::string_view begin) { return frame.starts_with(begin); }))
    return std::nullopt;
  int line = 0;
  const auto [end, error] =
      std::from_chars(frame.data() + open + 4, frame.data() + frame.size(), line);
  if (error != std::errc() || line <= 0) return std::nullopt;
  return PythonLine{std::string(frame.substr(0, open + 3)), line};
}

std::optional<PythonLine> python_line(const RankTrace& trace, std::uint32_t host_row) {
  if (const auto stack = trace.stacks.find(host_row); stack != trace.stacks.end()) {
    std::string_view rest = trace.names[stack->second];
    while (!rest.empty()) {  // innermost first
      const std::size_t end = rest.find(';');
      if (auto line = own_line(rest.substr(0, end))) return line;
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
  }
  const HostRow& row = trace.host_rows[host_row];
  const HostRow* innermost = nullptr;
  std::optional<PythonLine> result;
  for (const HostRow& other : trace.host_rows) {
    if (other.category != TraceCategory::python || other.thread != row.thread ||
        other.start_ns > row.start_ns || other.end_ns() < row.end_ns())
      continue;
    if (innermost != nullptr && other.start_ns <= innermost->start_ns) continue;
    if (auto line = own_line(trace.names[other.name])) {
      innermost = &other;
      result = std::move(line);
    }
  }
  return result;
}

}  // namespace lockstep
