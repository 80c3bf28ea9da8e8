// What a training run is asked for: one struct, one table of names for flags, config files and
// help.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

struct TrainSettings {
  // The model.
  std::string model = "tiny";
  std::int64_t layers = 0;  // 0: the model's own; so are the next four
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t sequence_length = 0;
  std::int64_t vocabulary = 0;
  double dropout = 0;
  std::int64_t freeze = 0;

  // The data.
  std::string data = "synthetic";
  std::string data_format = "auto";
  std::int64_t dataset_size = 4096;  // samples of synthetic data and of random rows
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  // updates; 0: as the epochs say
  bool shuffle = true;
  bool drop_last = true;
  std::int64_t workers = 2;
  std::int64_t prefetch = 2;
  bool pin_memory = true;
  bool preload = false;
  std::chrono::nanoseconds loader_delay{};

  // The batch.
  std::int64_t batch_size = 8;
  std::int64_t accumulation = 1;
  std::int64_t global_batch = 0;
  std::int64_t tokens_per_update = 0;

  // How the work is split.
  std::string parallel = "auto";
  std::string device = "auto";
  std::int64_t devices = 0;  // of this machine; 0: all there are
  std::int64_t split = 2;
  std::string backend = "auto";
  bool share_devices = false;
  double bucket_mb = 25;
  double first_bucket_mb = 1;
  bool gradient_as_bucket_view = true;
  bool find_unused = false;
  bool static_graph = false;
  std::chrono::nanoseconds timeout = std::chrono::minutes(30);

  // Numbers.
  std::string precision = "auto";
  bool activation_checkpointing = false;
  bool cuda_graphs = false;
  bool fused_kernels = true;
  std::string allocator;
  std::int64_t seed = 1337;

  // The optimizer.
  double learning_rate = 3e-4;
  double min_learning_rate = 3e-5;
  std::int64_t warmup_steps = 10;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip = 1;

  // What it says and keeps.
  std::int64_t log_every = 10;
  std::string log_format = "text";
  double peak_tflops = 0;
  std::string checkpoint_dir;
  std::int64_t save_every = 0;
  std::int64_t save_total_limit = 1;
  std::string resume = "auto";
  bool step_marks = true;

  // Wrong on purpose (training/faults.hpp).
  std::string fault = "none";
  double fault_share = 0.3;

  bool operator==(const TrainSettings&) const = default;
};

using SettingMember =
    std::variant<std::int64_t TrainSettings::*, double TrainSettings::*, bool TrainSettings::*,
                 std::string TrainSettings::*, std::chrono::nanoseconds TrainSettings::*>;

struct SettingRow {
  const char* group;
  const char* name;  // of the flag, and the key in a config file
  SettingMember member;
  const char* help;
  double least = 0;                                // of numbers
  std::span<const std::string_view> choices = {};  // of words; empty: any
  double most = 1e18;                              // of numbers
};
std::span<const SettingRow> all_settings();
// Numbers and words ask for a value; the rest are switches.
bool is_switch(const SettingRow& row);

// One setting by its name: from a flag's text. An unknown name is an error with the nearest.
Status set_setting(TrainSettings& settings, std::string_view name, std::string_view text);
std::string setting_text(const TrainSettings& settings, const SettingRow& row);

// A config file's text: a JSON object with the same names (a - may be written _). Keys that it set
// are added to `given`.
Status read_train_config(TrainSettings& settings, const std::string& json, const std::string& file,
                         std::vector<std::string>& given);
std::string train_config_text(const TrainSettings& settings);

// The published values of `--preset standard` and `fast`.
Status apply_preset(TrainSettings& settings, std::string_view preset);

// Flags that make these settings from the defaults, for the trainer's command line.
std::vector<std::string> flags_of(const TrainSettings& settings);

}  // namespace lockstep
