#include "training/train_settings.hpp"

#include <fmt/format.h>
#include <cmath>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "training/faults.hpp"

namespace lockstep {
namespace {

using S = TrainSettings;
using namespace std::chrono_literals;

constexpr std::array<std::string_view, 8> kModels = {
    "tiny", "small", "gpt2", "gpt2-124M", "gpt2-medium", "gpt2-large", "gpt2-xl", "mlp"};
constexpr std::array<std::string_view, 3> kDataFormats = {"auto", "text", "tokens"};
constexpr std::array<std::string_view, 6> kParallel = {"auto",          "single", "naive",
                                                       "data-parallel", "ddp",    "hybrid"};
constexpr std::array<std::string_view, 3> kDevices = {"auto", "cuda", "cpu"};
constexpr std::array<std::string_view, 5> kPrecisions = {"auto", "fp32", "tf32", "bf16", "fp16"};
constexpr std::array<std::string_view, 3> kBackends = {"auto", "nccl", "gloo"};
constexpr std::array<std::string_view, 2> kLogFormats = {"text", "json"};

const std::array kSettings = {
    SettingRow{"model", "model", &S::model, "the net: tiny to gpt2-xl, or mlp on random rows", 0,
               kModels},
    SettingRow{"model", "layers", &S::layers, "blocks, in place of the model's own number"},
    SettingRow{"model", "heads", &S::heads, "attention heads"},
    SettingRow{"model", "width", &S::width, "channels"},
    SettingRow{"model", "sequence-length", &S::sequence_length, "tokens of a sample"},
    SettingRow{"model", "vocabulary", &S::vocabulary, "different tokens"},
    SettingRow{"model", "dropout", &S::dropout, "share of activations dropped", 0, {}, 0.99},
    SettingRow{"model", "freeze", &S::freeze, "the first N blocks are not trained"},
    SettingRow{"data", "data", &S::data, "synthetic, or a file: text, GPT-2-style tokens"},
    SettingRow{"data", "data-format", &S::data_format, "what the file holds; auto looks into it", 0,
               kDataFormats},
    SettingRow{"data", "dataset-size", &S::dataset_size, "samples of synthetic data", 1},
    SettingRow{"data", "epochs", &S::epochs, "passes over the data", 1},
    SettingRow{"data", "steps", &S::steps, "updates; 0: as many as the epochs have"},
    SettingRow{"data", "shuffle", &S::shuffle, "another order each epoch"},
    SettingRow{"data", "drop-last", &S::drop_last,
               "leave out the tail that does not fill a batch on every rank"},
    SettingRow{"data", "workers", &S::workers, "threads that make batches; 0: none", 0, {}, 1024},
    SettingRow{"data", "prefetch", &S::prefetch, "batches that each worker has ready", 1},
    SettingRow{"data", "pin-memory", &S::pin_memory, "batches in page-locked memory (CUDA)"},
    SettingRow{"data", "preload", &S::preload,
               "all batches of an epoch are made before its first step"},
    SettingRow{"data", "loader-delay", &S::loader_delay,
               "each batch takes this much longer, for experiments"},
    SettingRow{"batch", "batch-size", &S::batch_size, "samples a device and pass", 1},
    SettingRow{"batch", "accumulation", &S::accumulation, "passes an update", 1},
    SettingRow{"batch", "global-batch", &S::global_batch,
               "samples an update over all ranks: sets accumulation"},
    SettingRow{"batch", "tokens-per-update", &S::tokens_per_update,
               "tokens an update over all ranks: sets accumulation"},
    SettingRow{"split of work", "parallel", &S::parallel, "how devices share the work", 0,
               kParallel},
    SettingRow{"split of work", "device", &S::device, "cuda, or cpu with virtual GPUs", 0,
               kDevices},
    SettingRow{"split of work", "devices", &S::devices, "devices of this machine; 0: all"},
    SettingRow{"split of work", "split", &S::split, "devices a group (hybrid)", 1},
    SettingRow{"split of work", "backend", &S::backend,
               "who carries gradients; auto: nccl where each rank has a GPU, else gloo", 0,
               kBackends},
    SettingRow{"split of work", "share-devices", &S::share_devices,
               "ranks may share a device (ddp): for trials on one GPU"},
    SettingRow{"split of work", "bucket-mb", &S::bucket_mb, "gradients reduced at once (ddp)",
               0.001},
    SettingRow{"split of work", "first-bucket-mb", &S::first_bucket_mb,
               "the first of them, small so that it starts early", 0.001},
    SettingRow{"split of work", "gradient-as-bucket-view", &S::gradient_as_bucket_view,
               "gradients live in their bucket: no copy"},
    SettingRow{"split of work", "find-unused", &S::find_unused,
               "look for parameters without a gradient in each step"},
    SettingRow{"split of work", "static-graph", &S::static_graph,
               "every step uses the same parameters"},
    SettingRow{"split of work", "timeout", &S::timeout, "how long a rank waits for the others"},
    SettingRow{"numbers", "precision", &S::precision, "auto: bf16 on CUDA, fp32 on the CPU", 0,
               kPrecisions},
    SettingRow{"numbers", "activation-checkpointing", &S::activation_checkpointing,
               "compute blocks again in backward: less memory"},
    SettingRow{"numbers", "cuda-graphs", &S::cuda_graphs,
               "record the step once and play it (CUDA, single)"},
    SettingRow{"numbers", "fused-kernels", &S::fused_kernels,
               "kernels of our own where they fit (CUDA, bf16, GPT without dropout)"},
    SettingRow{"numbers", "allocator", &S::allocator,
               "torch's allocator settings, as in PYTORCH_CUDA_ALLOC_CONF (CUDA)"},
    SettingRow{"numbers", "seed", &S::seed, "of weights, order and dropout"},
    SettingRow{"optimizer", "learning-rate", &S::learning_rate, "at its highest"},
    SettingRow{"optimizer", "min-learning-rate", &S::min_learning_rate, "at the end of the cosine"},
    SettingRow{"optimizer", "warmup-steps", &S::warmup_steps, "updates until the highest"},
    SettingRow{"optimizer", "weight-decay", &S::weight_decay, "of matrices; vectors have none"},
    SettingRow{"optimizer", "beta1", &S::beta1, "AdamW", 0, {}, 0.999999},
    SettingRow{"optimizer", "beta2", &S::beta2, "AdamW", 0, {}, 0.9999999},
    SettingRow{"optimizer", "epsilon", &S::epsilon, "AdamW"},
    SettingRow{"optimizer", "clip", &S::clip, "longest gradient over all parameters; 0: any"},
    SettingRow{"words and files", "log-every", &S::log_every,
               "updates between lines; only then the host waits for the loss", 1},
    SettingRow{"words and files", "log-format", &S::log_format, "lines for people or for programs",
               0, kLogFormats},
    SettingRow{"words and files", "peak-tflops", &S::peak_tflops,
               "of one device, for MFU; 0: from its name"},
    SettingRow{"words and files", "checkpoint-dir", &S::checkpoint_dir,
               "where checkpoints lie; none: no checkpoints"},
    SettingRow{"words and files", "save-every", &S::save_every,
               "updates between checkpoints; 0: at the end alone"},
    SettingRow{"words and files", "save-total-limit", &S::save_total_limit,
               "checkpoints kept; 0: all"},
    SettingRow{"words and files", "resume", &S::resume,
               "auto: the newest checkpoint; never; or a file"},
    SettingRow{"words and files", "step-marks", &S::step_marks,
               "tell lockstep where each step's time goes"},
    SettingRow{"wrong on purpose", "fault", &S::fault,
               "train badly in one known way, to see it found: docs/faults.md", 0, fault_names()},
    SettingRow{"wrong on purpose",
               "fault-share",
               &S::fault_share,
               "of a good step, how much the fault adds, where it adds time",
               0,
               {},
               10},
};

const SettingRow* row_named(std::string_view name) {
  for (const SettingRow& row : kSettings)
    if (name == row.name) return &row;
  return nullptr;
}

Error unknown_setting(std::string_view name) {
  std::vector<std::string> known;
  for (const SettingRow& row : kSettings) known.emplace_back(row.name);
  const auto near = nearest(name, known);
  return usage_error(fmt::format("no setting '{}'", printable(name)),
                     near ? fmt::format("did you mean '{}'?", *near)
                          : "see `lockstep train --help` for all of them");
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || !(value == value))
    return std::nullopt;
  return value;
}

Error not_a(const SettingRow& row, std::string_view text, std::string_view wanted) {
  return usage_error(fmt::format("{} is {}", row.name,
                                 text.empty() ? "empty" : fmt::format("'{}'", printable(text))),
                     fmt::format("give {}", wanted));
}

std::string range_of(const SettingRow& row) {
  return row.most >= 1e18 ? fmt::format("from {} on", row.least)
                          : fmt::format("from {} to {}", row.least, row.most);
}

// Each kind of setting reads its own text.
struct SetFrom {
  TrainSettings& settings;
  const SettingRow& row;
  std::string_view text;

  Status operator()(std::int64_t S::* member) const {
    const auto value = parse_integer(text);
    if (!value || static_cast<double>(*value) < row.least || static_cast<double>(*value) > row.most)
      return not_a(row, text, "a whole number " + range_of(row));
    settings.*member = *value;
    return Done{};
  }
  Status operator()(double S::* member) const {
    const auto value = parse_number(text);
    if (!value || *value < row.least || *value > row.most)
      return not_a(row, text, "a number " + range_of(row));
    settings.*member = *value;
    return Done{};
  }
  Status operator()(bool S::* member) const {
    if (text != "true" && text != "false") return not_a(row, text, "true or false");
    settings.*member = text == "true";
    return Done{};
  }
  Status operator()(std::string S::* member) const {
    if (!row.choices.empty() && std::ranges::find(row.choices, text) == row.choices.end()) {
      const std::vector<std::string> choices(row.choices.begin(), row.choices.end());
      const auto near = nearest(text, choices);
      return usage_error(fmt::format("{} '{}' is unknown", row.name, printable(text)),
                         near ? fmt::format("did you mean {}?", *near)
                              : fmt::format("one of {}", join(choices, ", ")));
    }
    settings.*member = std::string(text);
    return Done{};
  }
  Status operator()(std::chrono::nanoseconds S::* member) const {
    auto value = parse_duration(text);
    if (!value)
      return usage_error(fmt::format("{}: {}", row.name, value.error().what), value.error().next);
    if (*value < 1s && member == &S::timeout)
      return not_a(row, text, "a second at least: 30s, 30m");
    settings.*member = *value;
    return Done{};
  }
};

std::string duration_text(std::chrono::nanoseconds value) {
  if (value % 1min == 0ns && value > 0ns) return fmt::format("{}m", value / 1min);
  if (value % 1s == 0ns) return fmt::format("{}s", value / 1s);
  return fmt::format("{}ms", std::chrono::duration<double, std::milli>(value).count());
}

// Line and column, in the parser's words.
std::string what_is_wrong(const std::string& json) {
  try {
    const auto parsed = nlohmann::json::parse(json);
    return fmt::format("it is a single {}", parsed.type_name());
    // a number that no double holds is out_of_range, not a parse_error
  } catch (const nlohmann::json::exception& problem) {
    const std::string words = problem.what();
    return printable(words.substr(std::min(words.size(), words.find("at line") == std::string::npos
                                                             ? std::size_t{0}
                                                             : words.find("at line"))));
  }
}

}  // namespace

std::span<const SettingRow> all_settings() { return kSettings; }

bool is_switch(const SettingRow& row) { return std::holds_alternative<bool S::*>(row.member); }

Status set_setting(TrainSettings& settings, std::string_view name, std::string_view text) {
  const SettingRow* const row = row_named(name);
  if (row == nullptr) return unknown_setting(name);
  return std::visit(SetFrom{settings, *row, text}, row->member);
}

std::string setting_text(const TrainSettings& settings, const SettingRow& row) {
  return std::visit(
      [&](const auto member) -> std::string {
        const auto& value = settings.*member;
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
          return value;
        else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::chrono::nanoseconds>)
          return duration_text(value);
        else
          return fmt::format("{}", value);
      },
      row.member);
}

Status read_train_config(TrainSettings& settings, const std::string& json, const std::string& file,
                         std::vector<std::string>& given) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object())
    return usage_error(
        fmt::format("{} is not a JSON object: {}", printable(file), what_is_wrong(json)),
        "see `lockstep train --print-config` for one");
  for (const auto& [key, value] : parsed.items()) {
    std::string name = key;
    for (char& letter : name)
      if (letter == '_') letter = '-';
    if (!value.is_primitive() || value.is_null())
      return usage_error(fmt::format("{}: '{}' is neither a number, a word nor true or false",
                                     printable(file), printable(key)),
                         "see `lockstep train --print-config`");
    // 1e5 and 3.0 are whole numbers too.
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    // beyond, a double holds no whole numbers one by one, and no int64 in the end
    constexpr double kWholeAtMost = 9e15;
    if (value.is_number_float() && std::fabs(value.get<double>()) < kWholeAtMost &&
        value.get<double>() == std::floor(value.get<double>()))
      text = fmt::format("{}", static_cast<std::int64_t>(value.get<double>()));
    if (Status set = set_setting(settings, name, text); !set)
      return usage_error(fmt::format("{}: {}", printable(file), set.error().what),
                         set.error().next);
    given.push_back(name);
  }
  return Done{};
}

std::string train_config_text(const TrainSettings& settings) {
  nlohmann::ordered_json config;
  for (const SettingRow& row : kSettings)
    std::visit(
        [&](const auto member) {
          const auto& value = settings.*member;
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::chrono::nanoseconds>)
            config[row.name] = duration_text(value);
          else
            config[row.name] = value;
        },
        row.member);
  return config.dump(2) + "\n";
}

Status apply_preset(TrainSettings& settings, std::string_view preset) {
  // Published for two GPUs: standard and fast differ in batch, accumulation and how often they log.
  if (preset != "standard" && preset != "fast")
    return usage_error(fmt::format("no preset '{}'", printable(preset)), "use standard or fast");
  const bool fast = preset == "fast";
  settings.batch_size = fast ? 8 : 4;
  settings.accumulation = fast ? 1 : 2;
  settings.log_every = fast ? 10 : 5;
  settings.workers = 4;
  settings.pin_memory = true;
  settings.find_unused = false;
  settings.save_total_limit = 1;
  return Done{};
}

std::vector<std::string> flags_of(const TrainSettings& settings) {
  const TrainSettings defaults;
  std::vector<std::string> flags;
  for (const SettingRow& row : kSettings) {
    const std::string text = setting_text(settings, row);
    if (text == setting_text(defaults, row)) continue;
    if (is_switch(row)) {
      flags.push_back(fmt::format("--{}{}", text == "true" ? "" : "no-", row.name));
      continue;
    }
    flags.push_back(fmt::format("--{}", row.name));
    flags.push_back(text);
  }
  return flags;
}

}  // namespace lockstep
