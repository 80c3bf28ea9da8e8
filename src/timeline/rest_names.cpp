#include "timeline/rest_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "base/median.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

struct Words {
  StepPart part;
  std::array<std::string_view, 16> words;
};
// Whole words of a function's name: `log_metrics` and `logMetrics` log, a `catalog` does not.
constexpr std::array kFunctionWords = {
    Words{StepPart::checkpoint, {"save", "saves", "checkpoint", "checkpoints", "ckpt", "snapshot"}},
    Words{StepPart::evaluation,
          {"eval", "evaluate", "evaluation", "validate", "validation", "valid", "val"}},
    Words{StepPart::logging,
          {"log", "logs", "logger", "logging", "report", "print", "metric", "metrics", "progress",
           "summary", "wandb", "tensorboard", "mlflow"}},
    Words{StepPart::data_wait,
          {"dataset", "loader", "dataloader", "fetch", "collate", "transform", "transforms",
           "tokenize", "augment", "getitem", "preprocess", "prefetch"}},
    Words{StepPart::optimizer, {"clip", "optimizer", "optim", "scheduler", "lr"}},
};
constexpr std::array kPackages = {
    Words{StepPart::logging,
          {"logging", "wandb", "tensorboard", "tensorboardX", "tqdm", "mlflow", "comet_ml",
           "neptune", "rich", "csv", "aim", "clearml"}},
    Words{StepPart::data_wait,
          {"PIL", "torchvision", "datasets", "albumentations", "cv2", "tokenizers", "webdataset",
           "torchaudio", "librosa"}},
    Words{StepPart::checkpoint, {"safetensors", "pickle"}},
};

template <class Table>
std::optional<StepPart> part_of(const Table& table, std::string_view word) {
  for (const Words& row : table)
    if (std::ranges::find(row.words, word) != row.words.end() && !word.empty()) return row.part;
  return std::nullopt;
}

// log_metrics, logMetrics: log, metrics.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char letter : name) {
    const bool upper = std::isupper(static_cast<unsigned char>(letter)) != 0;
    if ((letter == '_' || upper) && !words.back().empty()) words.emplace_back();
    if (letter != '_')
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return words;
}

// get_batch makes one (nanoGPT's took 88 % of a step); train_batch has one.
bool makes_batches(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 12> kMakes = {"get",   "next", "load",    "make",
                                                       "read",  "draw", "sample",  "build",
                                                       "fetch", "form", "prepare", "create"};
  const bool batch = std::ranges::any_of(words, [](const std::string& word) {
    return word == "batch" || word == "batches" || word == "minibatch";
  });
  return batch && std::ranges::any_of(words, [&](const std::string& word) {
           return std::ranges::find(kMakes, word) != kMakes.end();
         });
}

// update(), update_weights(), apply_gradients(): a hand-written optimizer.
bool updates_parameters(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 9> kParameters = {
      "weights", "weight", "params", "parameters", "model", "grads", "gradients", "sgd", "adam"};
  const auto has = [&](std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (has("update") && std::ranges::all_of(words, [](const std::string& word) {
        return word == "update" || word.empty();
      }))
    return true;
  return (has("update") && std::ranges::any_of(kParameters, has)) ||
         (has("apply") && (has("grads") || has("gradients")));
}

std::optional<StepPart> part_of_function(std::string_view function) {
  if (function == "__iter__" || function == "__next__") return StepPart::data_wait;
  const auto words = words_of(function);
  for (const std::string& word : words)
    if (const auto part = part_of(kFunctionWords, word)) return part;
  if (updates_parameters(words)) return StepPart::optimizer;
  return makes_batches(words) ? std::optional(StepPart::data_wait) : std::nullopt;
}

// It says that something is saved, and nothing of what.
bool is_any_save(std::string_view function) { return function == "save" || function == "_save"; }

bool names_a_save(std::string_view function) {
  const auto words = words_of(function);
  return std::ranges::any_of(words, [](const std::string& word) {
    return part_of(kFunctionWords, word) == StepPart::checkpoint;
  });
}

// What torch computes outside the hooked passes: a loss, a teacher.
StepPart part_of_torch(std::string_view function) {
  if (function == "step" || function == "zero_grad" ||
      function.find("norm_") != std::string_view::npos || function.ends_with("total_norm") ||
      function.find("grads_with_norm") != std::string_view::npos)
    return StepPart::optimizer;
  // A model that is copied, whole or by its state, computes nothing and is not saved yet.
  const bool is_copied = function.starts_with("__") && function.ends_with("__") &&
                         function != "__call__" && function != "__init__";
  if (is_copied || function.starts_with("_reduce") || function.starts_with("_rebuild") ||
      function == "clone" || function.ends_with("state_dict"))
    return StepPart::other;
  if (function == "grad" || function.find("backward") != std::string_view::npos)
    return StepPart::backward;
  return part_of_function(function).value_or(StepPart::forward);
}

// The same stretch of every step: between these two pieces.
struct Site {
  int rank;
  const CodePlace* after;
  const CodePlace* before;
  // What runs in every 40th step alone is not what the other 39 spend there: they differ in length.
  int times_three = 0;  // so many times three as long as is usual there
  auto operator<=>(const Site&) const = default;
};
struct Seen {
  double whole_ms = 0;
  // into the C library
  std::map<std::pair<StepPart, std::shared_ptr<const CodePlace>>, double> calls_ms;
  double looks = 0;
  std::map<std::shared_ptr<const CodePlace>, double> places;
};

// A wait for the GPU outside all that hooks know, or a sleep within a model's forward, of which the
// host probe knows the time alone.
bool is_nameless_wait(const StepPiece& piece) {
  return (piece.part == StepPart::sync || piece.part == StepPart::other) && piece.count == 1 &&
         piece.place->file.empty();
}

// The same one of every step: how many behind this piece.
struct WaitSite {
  int rank;
  const CodePlace* after;
  int number;
  auto operator<=>(const WaitSite&) const = default;
};
using Looks = std::map<std::shared_ptr<const CodePlace>, double>;

template <class Pieces, class Do>
void for_each_nameless_wait(int rank, Pieces& pieces, Do act) {
  WaitSite site{rank, nullptr, 0};
  for (auto& piece : pieces) {
    if (is_nameless_wait(piece)) {
      act(site, piece);
      ++site.number;
    } else if (piece.count == 1) {
      site = {rank, piece.place.get(), 0};
    }
  }
}

// Where the training thread was seen in this very wait, last.
std::shared_ptr<const CodePlace> seen_in(const StepPiece& wait,
                                         const std::vector<StackLook>& looks) {
  std::shared_ptr<const CodePlace> place;
  for (const StackLook& look : looks)
    if (look.at_ms >= wait.from_ms && look.at_ms < wait.from_ms + wait.length_ms)
      place = look.place;
  return place;
}

// What the host did by itself gets other names; so does the GPU's rest meanwhile.
void move(StepMark& step, StepPart from, StepPart to, double length_ms) {
  if (to == from) return;
  auto& source = step.spans_ms[index_of(from)];
  const double whole = source.value_or(0);
  const double moved = std::min(length_ms, whole);
  if (moved <= 0) return;
  source = whole - moved;
  auto& part = step.spans_ms[index_of(to)];
  part = part.value_or(0) + moved;
  if (!step.on_devices) return;
  double& rested = step.on_devices->idle_ms[index_of(from)];
  const double moved_rest = rested * moved / whole;
  rested -= moved_rest;
  step.on_devices->idle_ms[index_of(to)] += moved_rest;
}
void move_out_of_other(StepMark& step, StepPart to, double length_ms) {
  move(step, StepPart::other, to, length_ms);
}

bool is_torchs_pass(StepPart part) {
  return part == StepPart::forward || part == StepPart::backward || part == StepPart::optimizer;
}

// Lines for waits that have none: where the training thread was seen in them, or in the same one of
// other steps.
void name_waits(std::vector<StepAt>& steps) {
  std::map<WaitSite, Looks> sites;
  for (const StepAt& entry : steps) {
    if (!entry.step.detail) continue;
    for_each_nameless_wait(entry.step.rank, entry.step.detail->pieces,
                           [&](const WaitSite& site, const StepPiece& wait) {
                             if (const auto place = seen_in(wait, entry.step.detail->looks))
                               sites[site][place] += 1;
                           });
  }
  std::map<CodePlace, std::shared_ptr<const CodePlace>> known;
  const auto waiting_at = [&known](StepPart part, const std::shared_ptr<const CodePlace>& seen) {
    if (part == StepPart::other) return seen;
    CodePlace place = *seen;
    place.what = "wait for the GPU";
    auto& shared = known[place];
    if (!shared) shared = std::make_shared<const CodePlace>(place);
    return shared;
  };
  std::map<WaitSite, std::shared_ptr<const CodePlace>> places;
  for (const auto& [site, looks] : sites)
    places[site] =
        std::ranges::max_element(looks, {}, [](const auto& place) { return place.second; })->first;
  if (places.empty()) return;
  for (StepAt& entry : steps) {
    if (!entry.step.detail || std::ranges::none_of(entry.step.detail->pieces, is_nameless_wait))
      continue;
    auto detail = std::make_shared<StepDetail>(*entry.step.detail);
    std::vector<std::pair<StepPiece*, std::shared_ptr<const CodePlace>>> named;
    for_each_nameless_wait(entry.step.rank, detail->pieces,
                           [&](const WaitSite& site, StepPiece& wait) {
                             const auto seen = seen_in(wait, detail->looks);
                             const auto found = places.find(site);
                             if (seen)
                               named.emplace_back(&wait, waiting_at(wait.part, seen));
                             else if (found != places.end())
                               named.emplace_back(&wait, waiting_at(wait.part, found->second));
                           });
    for (auto& [wait, place] : named) {
      wait->place = place;
      const StepPart part =
          wait->part == StepPart::other ? part_of_functions(place->what) : StepPart::sync;
      // within a pass of torch's: of a hook, the line that began the pass is all that is known
      if (part == StepPart::sync || is_torchs_pass(part)) continue;
      move_out_of_other(entry.step, part, wait->own_ms);
      wait->part = part;
    }
    entry.step.detail = std::move(detail);
  }
}

constexpr double kShortestMs = 0.02;  // below, a stretch is the cost of the hooks themselves
constexpr double kFewestShare = 0.02;

// What the C library did for most of the stretch, where the functions do not say: writing a log has
// a name of its own.
std::optional<StepPart> part_of_calls(const Seen& seen) {
  constexpr double kMost = 0.5;
  std::map<StepPart, double> by_part;
  for (const auto& [call, length] : seen.calls_ms) by_part[call.first] += length;
  for (const auto& [part, length] : by_part)
    if (part != StepPart::other && length > kMost * seen.whole_ms) return part;
  return std::nullopt;
}

constexpr double kLogOf3 = 1.0986122886681098;

// The median of each site's stretches tells which are longer or shorter than is usual there.
class Sites {
 public:
  explicit Sites(const std::vector<StepAt>& steps) {
    std::map<Site, std::vector<double>> lengths;
    for (const StepAt& entry : steps)
      if (entry.step.detail)
        for (const StepRest& rest : entry.step.detail->rests)
          lengths[any_length(entry.step, rest)].push_back(rest.length_ms);
    for (auto& [site, of_site] : lengths) usual_ms_[site] = middle_value(of_site);
  }

  Site of(const StepMark& step, const StepRest& rest) const {
    Site site = any_length(step, rest);
    if (const double usual = usual_ms_.at(site); usual > 0 && rest.length_ms > 0)
      site.times_three = static_cast<int>(std::trunc(std::log(rest.length_ms / usual) / kLogOf3));
    return site;
  }

  Seen& seen(const StepMark& step, const StepRest& rest) { return seen_[of(step, rest)]; }

  // Null: nobody looked at it, and nothing is known of what it is.
  const Seen* known(const StepMark& step, const StepRest& rest) const {
    Site site = of(step, rest);
    while (site.times_three > 0 && looked_at(site) == nullptr)
      --site.times_three;  // the same, and interrupted
    return looked_at(site);
  }

 private:
  static Site any_length(const StepMark& step, const StepRest& rest) {
    return {step.rank, rest.after.get(), rest.before.get()};
  }
  const Seen* looked_at(const Site& site) const {
    const auto found = seen_.find(site);
    return found == seen_.end() || found->second.looks == 0 ? nullptr : &found->second;
  }

  std::map<Site, double> usual_ms_;
  std::map<Site, Seen> seen_;
};

// Where a line waits for the GPU again and again, what it does between two waits is the waits'
// doing: each ended when the GPU had nothing left to do.
bool is_between_waits_of_a_line(const StepDetail& detail, const StepRest& rest,
                                const CodePlace& place) {
  if (rest.after == nullptr || rest.after != rest.before) return false;
  // Waits without a line of their own have one by now, and the rest still knows them without.
  const bool nameless = rest.after->file.empty();
  if (!nameless && (place.file != rest.after->file || place.line != rest.after->line)) return false;
  return std::ranges::any_of(detail.pieces, [&](const StepPiece& piece) {
    return piece.part == StepPart::sync &&
           (nameless ? piece.place->file == place.file && piece.place->line == place.line
                     : piece.place == rest.after);
  });
}

// The lines of one stretch: in which order they ran is not known.
void tell_moments(std::vector<StepPiece>::iterator first, std::vector<StepPiece>::iterator last) {
  if (last - first < 2) return;
  const bool one_part =
      std::all_of(first, last, [&](const StepPiece& piece) { return piece.part == first->part; });
  for (; first != last; ++first)
    first->moment = one_part ? PieceMoment::of_its_part : PieceMoment::unknown;
}

// Behind the backward pass and before the next batch no loss is computed: norms, metrics, averages
// of weights are the program's own. Pieces in order, of steps that have a forward pass.
bool is_behind_the_passes(const StepDetail& detail, const StepRest& rest) {
  bool has_forward = false;
  bool batch_follows = false;
  std::optional<StepPart> before;
  for (const StepPiece& piece : detail.pieces) {
    if (piece.count != 1) continue;
    has_forward = has_forward || piece.part == StepPart::forward;
    const bool is_batch = piece.part == StepPart::data_wait;
    if (!is_batch && !is_torchs_pass(piece.part)) continue;
    if (piece.from_ms < rest.from_ms)
      before = piece.part;
    else
      batch_follows = batch_follows || is_batch;
  }
  if (!has_forward) return false;
  return before ? *before == StepPart::backward || *before == StepPart::optimizer : batch_follows;
}

// The rest of a line that calls what has a name is that, too: a look behind a long call into C
// lands on it.
StepPart part_beside(const StepDetail& detail, std::ptrdiff_t first, const StepPiece& own) {
  if (own.part != StepPart::other || !own.place->what.empty()) return own.part;
  const StepPiece* most = nullptr;
  for (auto piece = detail.pieces.begin() + first; piece != detail.pieces.end(); ++piece) {
    const bool is_called_there = piece->place->file == own.place->file &&
                                 piece->place->loop_line == own.place->line &&
                                 piece->part == StepPart::data_wait;
    if (is_called_there && (most == nullptr || piece->own_ms > most->own_ms)) most = &*piece;
  }
  return most == nullptr ? own.part : most->part;
}

void name_rests_of(StepMark& step, const Sites& sites, bool has_gpu) {
  auto detail = std::make_shared<StepDetail>(*step.detail);
  for (const StepRest& rest : detail->rests) {
    const auto first = static_cast<std::ptrdiff_t>(detail->pieces.size());
    const Seen* const seen = sites.known(step, rest);
    if (rest.length_ms < kShortestMs || seen == nullptr) continue;
    const auto by_calls = part_of_calls(*seen);
    // Beside a GPU that is launching, as in a pass.
    const bool behind = !has_gpu && is_behind_the_passes(*step.detail, rest);
    double from = rest.from_ms;
    for (const auto& [place, looks] : seen->places) {
      const double share = looks / seen->looks;
      if (share < kFewestShare) continue;
      StepPiece piece;
      piece.part = part_of_functions(place->what);
      if (behind && piece.part == StepPart::forward) piece.part = StepPart::other;
      if (piece.part == StepPart::other) piece.part = by_calls.value_or(StepPart::other);
      if (piece.part == StepPart::other && is_between_waits_of_a_line(*step.detail, rest, *place))
        piece.part = StepPart::sync;
      piece.place = place;
      piece.from_ms = from;
      piece.length_ms = piece.own_ms = share * rest.length_ms;
      from += piece.length_ms;
      detail->pieces.push_back(std::move(piece));
    }
    for (auto piece = detail->pieces.begin() + first; piece != detail->pieces.end(); ++piece) {
      piece->part = part_beside(*detail, first, *piece);
      move_out_of_other(step, piece->part, piece->own_ms);
    }
    tell_moments(detail->pieces.begin() + first, detail->pieces.end());
  }
  detail->looks.clear();
  detail->rests.clear();
  step.detail = std::move(detail);
}

// Libraries that compute beside torch: what runs in them within a model's pass, as in a hook or in
// its forward, launches nothing.
bool works_beside_torch(const CodePlace& place) {
  constexpr std::array<std::string_view, 21> kBeside = {
      "numpy", "scipy",  "sklearn", "pandas",  "PIL",        "cv2",    "skimage",
      "numba", "h5py",   "lmdb",    "pyarrow", "matplotlib", "nltk",   "zipfile",
      "gzip",  "pickle", "json",    "csv",     "re",         "socket", "subprocess"};
  const auto colon = place.what.find(':');
  return colon != std::string::npos &&
         std::ranges::find(kBeside, std::string_view(place.what).substr(0, colon)) != kBeside.end();
}

const StepPiece* pass_at(const StepDetail& detail, double at_ms) {
  const StepPiece* found = nullptr;
  for (const StepPiece& piece : detail.pieces)
    if (piece.count == 1 && at_ms >= piece.from_ms && at_ms < piece.from_ms + piece.length_ms &&
        (found == nullptr || piece.length_ms <= found->length_ms))
      found = &piece;
  return found != nullptr && is_torchs_pass(found->part) ? found : nullptr;
}

// Of a pass, the share that looks found in such a library, by line.
struct PassLooks {
  double looks = 0;
  Looks beside;
};
using Passes = std::map<std::pair<int, const CodePlace*>, PassLooks>;

void take_out_of_passes(StepMark& step, const Passes& passes) {
  constexpr double kFewestLooks = 20;
  constexpr double kWorthAName = 0.05;
  auto detail = std::make_shared<StepDetail>(*step.detail);
  std::vector<StepPiece> taken;
  for (StepPiece& piece : detail->pieces) {
    const auto found = passes.find({step.rank, piece.place.get()});
    if (!is_torchs_pass(piece.part) || piece.count != 1 || found == passes.end() ||
        found->second.looks < kFewestLooks)
      continue;
    const double own = piece.own_ms;
    for (const auto& [place, looks] : found->second.beside) {
      const double share = looks / found->second.looks;
      if (share < kWorthAName) continue;
      StepPiece part = piece;
      part.part = StepPart::other;
      part.place = place;
      part.own_ms = part.length_ms = share * own;
      part.moment = PieceMoment::unknown;
      piece.own_ms -= part.own_ms;
      move(step, piece.part, StepPart::other, part.own_ms);
      taken.push_back(std::move(part));
    }
  }
  if (taken.empty()) return;
  detail->pieces.insert(detail->pieces.end(), taken.begin(), taken.end());
  step.detail = std::move(detail);
}

void name_work_within_passes(std::vector<StepAt>& steps) {
  Passes passes;
  bool any = false;
  for (const StepAt& entry : steps) {
    if (!entry.step.detail) continue;
    for (const StackLook& look : entry.step.detail->looks) {
      const StepPiece* const pass = pass_at(*entry.step.detail, look.at_ms);
      if (pass == nullptr) continue;
      PassLooks& seen = passes[{entry.step.rank, pass->place.get()}];
      seen.looks += 1;
      if (!works_beside_torch(*look.place)) continue;
      seen.beside[look.place] += 1;
      any = true;
    }
  }
  if (!any) return;
  for (StepAt& entry : steps)
    if (entry.step.detail) take_out_of_passes(entry.step, passes);
}

}  // namespace

StepPart part_of_functions(std::string_view stack) {
  if (stack.empty()) return StepPart::other;
  std::optional<StepPart> by_torch;
  bool saves = false;
  for (const std::string_view entry : split(stack, '<')) {
    const auto colon = entry.find(':');
    const std::string_view function =
        colon == std::string_view::npos ? entry : entry.substr(colon + 1);
    const std::string_view package =
        colon == std::string_view::npos ? std::string_view() : entry.substr(0, colon);
    if (package == "torch.optim") return StepPart::optimizer;
    if (package == "torch") {
      by_torch = part_of_torch(function);
      continue;  // a user's `evaluate` below which torch computes says more
    }
    const auto by_package = part_of(kPackages, package);
    const auto part = by_package ? by_package : part_of_function(function);
    if (part == StepPart::checkpoint && !by_package && is_any_save(function)) {
      saves = true;  // a logger's `save` lies below a function that logs
      continue;
    }
    if (saves && part)
      return part == StepPart::logging && !names_a_save(function) ? StepPart::logging
                                                                  : StepPart::checkpoint;
    if (part) return *part;
  }
  return saves ? StepPart::checkpoint : by_torch.value_or(StepPart::other);
}

void name_rests(std::vector<StepAt>& steps) {
  name_waits(steps);
  name_work_within_passes(steps);
  const bool has_gpu = std::ranges::any_of(steps, [](const StepAt& entry) {
    return entry.step.on_devices || entry.step.gpu_idle_ms || entry.step.gpu_ran_dry;
  });
  Sites sites(steps);
  for (const StepAt& entry : steps) {
    if (!entry.step.detail) continue;
    for (const StepRest& rest : entry.step.detail->rests) {
      Seen& seen = sites.seen(entry.step, rest);
      seen.whole_ms += rest.length_ms;
      for (const HostCall& call : rest.calls)
        seen.calls_ms[{call.part, call.place}] += call.length_ms;
    }
    for (const StackLook& look : entry.step.detail->looks)
      for (const StepRest& rest : entry.step.detail->rests)
        if (look.at_ms >= rest.from_ms && look.at_ms < rest.from_ms + rest.length_ms) {
          Seen& seen = sites.seen(entry.step, rest);
          seen.looks += 1;
          seen.places[look.place] += 1;
        }
  }
  for (StepAt& entry : steps)
    if (entry.step.detail && !entry.step.detail->rests.empty())
      name_rests_of(entry.step, sites, has_gpu);
}

}  // namespace lockstep
