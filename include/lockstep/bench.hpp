// A training measured on one, two, four ... devices and in several ways, round by round, and what
// the measurements come to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

enum class BenchKind : std::uint8_t { scaling, presets };

// Whether more devices get more work, or divide the same.
enum class Growth : std::uint8_t { none, weak, strong };

// What is run.
struct BenchCase {
  std::string title;  // "DDP", "DDP, buckets of 1 MB"
  std::string way;    // single, naive, data-parallel, ddp; script: the user's own
  Growth growth = Growth::none;
  bool of_curve = false;  // one of the points that the fit and the plot are made of
  int devices = 1;
  int ranks = 1;
  std::int64_t batch = 0;  // of a device and pass; 0: the script's own
  std::int64_t accumulation = 1;
  std::vector<std::string> command;  // as it is started
  std::optional<double> published_minutes;
};

// One round of it.
struct BenchRound {
  double speed = 0;    // in the report's unit
  double step_ms = 0;  // of an update
  std::optional<double> epoch_s;
  std::vector<double> busy;                           // of each device
  std::vector<std::pair<std::string, double>> parts;  // of a step, by name, as shares
  std::optional<double> other_cores;                  // that other programs took meanwhile
};

// The rounds of a case: medians, and how far they lie apart.
struct BenchRow {
  BenchCase what;
  std::vector<BenchRound> rounds;
  double speed = 0;
  double slowest = 0;
  double fastest = 0;
  double step_ms = 0;
  std::optional<double> epoch_s;
  std::vector<double> busy;
  std::vector<std::pair<std::string, double>> parts;
  double speedup = 1;     // over the first row
  double efficiency = 1;  // of the devices
  bool too_few_cores = false;
};

struct Expected {
  int devices = 0;
  double low = 0;
  double high = 0;
};

// What the points of the curve say about more devices. With one point beyond the first the two
// terms of the exchange cannot be told apart: then the range goes from one to the other.
struct ScalingFit {
  double alone_ms = 0;               // a step of one device
  std::optional<double> traffic_ms;  // of the exchange, times 2(n-1)/n: what a ring sends
  std::optional<double> each_ms;     // more with every device: latency, and what devices share
  std::optional<double> serial;      // Amdahl's share, where the batch was divided
  std::vector<Expected> weak;
  std::vector<Expected> strong;
  std::vector<int> left_out;  // devices whose point tells of too few cores, not of scaling
};

struct BenchReport {
  BenchKind kind = BenchKind::scaling;
  std::string subject;  // "lockstep-train, tiny", "train.py"
  std::string unit;     // tokens/s, samples/s, batches/s
  std::string devices;  // "virtual GPU", "NVIDIA H200"
  bool is_virtual = false;
  // a device is a core of this machine: a virtual GPU, or a script's rank without one
  bool on_cores = false;
  bool has_steps = true;  // speeds are of steps: without them there is nothing to fit
  int cores = 0;
  int rounds = 0;
  std::vector<BenchRow> rows;  // the first is what the others are compared with
  std::optional<ScalingFit> fit;
  std::vector<std::string> notes;  // what a reader must know to trust the numbers, in sentences
};

// What guides say of DDP, and of what it brings over nn.DataParallel.
struct PublishedSpeedup {
  int devices;
  double low;
  double high;
};
inline constexpr PublishedSpeedup kPublishedSpeedups[] = {
    {2, 1.8, 1.9}, {4, 3.5, 3.8}, {8, 7.5, 7.5}};
inline constexpr double kPublishedOverDataParallel[] = {1.5, 2.0};

}  // namespace lockstep
