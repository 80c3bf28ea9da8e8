#include "reference_trainer/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
constexpr auto kBarEvery = 200ms;
constexpr int kBarColumns = 30;

nlohmann::ordered_json json_of(const ProgressLine& line) {
  nlohmann::ordered_json json;
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  json["step"] = line.step;
  json["steps"] = line.steps;
  json["epoch"] = line.epoch;
  json["loss"] = number(line.loss);  // null: it is not a number any more
  json["learning_rate"] = line.learning_rate;
  json["gradient_norm"] =
      line.gradient_norm ? number(*line.gradient_norm) : nlohmann::ordered_json(nullptr);
  json["tokens_per_s"] = line.tokens_per_s;
  json["samples_per_s"] = line.samples_per_s;
  json["step_ms"] = line.step_ms;
  json["mfu"] = line.model_flops_utilization ? nlohmann::ordered_json(*line.model_flops_utilization)
                                             : nlohmann::ordered_json(nullptr);
  for (std::size_t rank = 0; rank < line.memory.size(); ++rank)
    json["memory"].push_back({{"rank", rank},
                              {"allocated_bytes", line.memory[rank].allocated_bytes},
                              {"reserved_bytes", line.memory[rank].reserved_bytes},
                              {"peak_bytes", line.memory[rank].peak_bytes}});
  json["epoch_s"] = to_ms(line.epoch_time) / 1e3;
  json["left_s"] = to_ms(line.left) / 1e3;
  return json;
}

std::string rate_text(double value) {
  return value >= 1e6   ? fmt::format("{:.2f}M", value / 1e6)
         : value >= 1e4 ? fmt::format("{:.1f}k", value / 1e3)
                        : fmt::format("{:.0f}", value);
}

// Of one rank; of several the least and the most, where they differ: equal ranks hold equal memory.
std::string memory_text(const std::vector<DeviceMemory>& ranks, std::int64_t DeviceMemory::* part) {
  if (ranks.empty()) return "unknown";
  const auto [least, most] = std::ranges::minmax_element(ranks, {}, part);
  const std::string low = format_bytes(static_cast<double>((*least).*part));
  const std::string high = format_bytes(static_cast<double>((*most).*part));
  return low == high ? high : fmt::format("{} to {}", low, high);
}

}  // namespace

Progress::~Progress() { clear_bar(); }

void Progress::clear_bar() {
  if (bar_shown_) lockstep::say("\r\x1b[K");
  bar_shown_ = false;
}

void Progress::say(const std::string& words) {
  if (!speaks_ || format_ != Format::text) return;
  clear_bar();
  lockstep::say(words + "\n");
}

void Progress::line(const ProgressLine& line) {
  if (!speaks_) return;
  clear_bar();
  std::string text;
  if (format_ == Format::json) {
    text = json_of(line).dump() + "\n";
  } else {
    text = fmt::format(
        "step {:>{}}/{}  loss {:.4f}  lr {:.2e}  {} tokens/s  {} samples/s  {:.1f} ms/step",
        line.step, std::to_string(line.steps).size(), line.steps, line.loss, line.learning_rate,
        rate_text(line.tokens_per_s), rate_text(line.samples_per_s), line.step_ms);
    if (line.model_flops_utilization)
      text += fmt::format("  MFU {:.1f} %", *line.model_flops_utilization * 100);
    text += fmt::format("  memory {} (peak {}, reserved {})  epoch {:.2f} of {} each, {} left\n",
                        memory_text(line.memory, &DeviceMemory::allocated_bytes),
                        memory_text(line.memory, &DeviceMemory::peak_bytes),
                        memory_text(line.memory, &DeviceMemory::reserved_bytes), line.epoch,
                        format_duration(line.epoch_time), format_duration(line.left));
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Progress::bar(std::int64_t step, std::int64_t steps) {
  if (!speaks_ || format_ != Format::text || steps <= 0) return;
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto now = monotonic_now();
  if (!terminal || now - bar_at_ < kBarEvery) return;
  bar_at_ = now;
  bar_shown_ = true;
  const auto filled = static_cast<int>(kBarColumns * step / steps);
  std::string cells;
  for (int i = 0; i < kBarColumns; ++i) cells += i < filled ? "█" : "·";
  lockstep::say(fmt::format("\r\x1b[K{} {}/{}", cells, step, steps));
}

void Progress::summary(const ProgressLine& line, std::int64_t updates,
                       std::chrono::nanoseconds time) {
  if (!speaks_) return;
  clear_bar();
  std::string text;
  if (format_ == Format::json) {
    auto json = json_of(line);
    json["done"] = true;
    json["updates"] = updates;
    json["time_s"] = to_ms(time) / 1e3;
    text = json.dump() + "\n";
  } else {
    text = fmt::format(
        "done: {} steps in {}, loss {:.4f}, {} tokens/s, {} samples/s, {:.1f} ms/step, peak memory "
        "a rank {}\n",
        updates, format_duration(time), line.loss, rate_text(line.tokens_per_s),
        rate_text(line.samples_per_s), line.step_ms,
        memory_text(line.memory, &DeviceMemory::peak_bytes));
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace lockstep
