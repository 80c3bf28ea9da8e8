#include "plan/machine_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace lockstep {
namespace {

// bytes/s: NVLink of cards that are joined in pairs, if at all
constexpr double kNeedsABridge = 1e11;
constexpr double kUsualNetworkGbit = 100;
// eight adapters of 400 Gbit/s, as H100 and H200 nodes have
constexpr double kUsualFastNetworkGbit = 3200;
constexpr double kGigabyte = 1e9;

// "24GB" alone: memory is all that is known.
std::optional<double> bare_memory(std::string_view text) {
  const std::string word = lower_case(text);
  for (const std::string_view unit : {"gib", "gb", "g"})
    if (word.ends_with(unit)) {
      const auto count = parse_count(word.substr(0, word.size() - unit.size()));
      return count ? std::optional(*count * 1024 * 1024 * 1024) : std::nullopt;
    }
  return std::nullopt;
}

Result<std::pair<int, std::string>> count_and_name(const std::string& text) {
  const auto times = text.find_first_of("xX");
  const auto count =
      times == std::string::npos ? std::nullopt : parse_integer(text.substr(0, times));
  if (count) {
    if (*count < 1 || *count > 64)
      return usage_error(fmt::format("--gpus {}: a node has 1 to 64 GPUs", printable(text)),
                         "several nodes are --nodes N");
    return std::pair(static_cast<int>(*count), text.substr(times + 1));
  }
  if (const auto bare = parse_integer(text))
    return usage_error(fmt::format("--gpus {}: which kind?", printable(text)),
                       fmt::format("write it so: --gpus {}xA100-80GB", *bare));
  return std::pair(1, text);
}

Result<GpuKind> kind_from(const std::string& name, std::vector<std::string>& notes) {
  if (const GpuKind* const known = gpu_kind_named(name)) return *known;
  if (const auto memory = bare_memory(name)) {
    GpuKind kind = gpu_kind_with_memory(*memory);
    notes.push_back(fmt::format("only the memory is given: as fast as a {}", kind.name));
    kind.memory_bytes = *memory * 0.985;  // what the driver leaves of it
    return kind;
  }
  // A known kind with another memory: H100-64GB.
  if (const auto dash = name.rfind('-'); dash != std::string::npos)
    if (const GpuKind* const known = gpu_kind_named(name.substr(0, dash)))
      if (const auto memory = bare_memory(name.substr(dash + 1))) {
        GpuKind kind = *known;
        kind.memory_bytes = *memory * 0.985;
        notes.push_back(fmt::format("a {} with {}", kind.name, format_bytes(*memory)));
        return kind;
      }
  const auto names = gpu_kind_names();
  const auto near = nearest(name, names);
  if (const auto count = parse_count(name))
    return usage_error(fmt::format("no GPU '{}' is known", printable(name)),
                       fmt::format("gigabytes are written so: --gpus 2x{:.0f}GB", *count));
  return usage_error(
      fmt::format("no GPU '{}' is known", printable(name)),
      near ? fmt::format("did you mean {}? Or give its memory alone: --gpus 2x24GB", *near)
           : fmt::format("known: {}; or give its memory alone: --gpus 2x24GB", join(names, ", ")));
}

Result<MachineAnswer> this_machine(const std::vector<GpuInfo>& here, int cores,
                                   double memory_bytes) {
  MachineAnswer answer;
  if (here.empty())
    return Error{"this machine shows no GPU to plan for",
                 "name one: lockstep plan --gpus 8xH100-80GB"};
  const double memory = static_cast<double>(here.front().memory_total_bytes.value_or(0));
  const std::string name = here.front().name.value_or("");
  if (const GpuKind* const known = gpu_kind_of(name, memory))
    answer.machine.gpu = *known;
  else {
    answer.machine.gpu = gpu_kind_with_memory(memory);
    answer.notes.push_back(fmt::format("{} is not in the table: as fast as a {}", printable(name),
                                       answer.machine.gpu.name));
  }
  for (const GpuInfo& gpu : here)
    if (gpu.memory_total_bytes && *gpu.memory_total_bytes > 0)
      answer.machine.gpu.memory_bytes =
          std::min(gpu.index == here.front().index ? 1e18 : answer.machine.gpu.memory_bytes,
                   static_cast<double>(*gpu.memory_total_bytes));
  answer.machine.gpus_a_node = static_cast<int>(here.size());
  answer.machine.cores_a_node = cores;
  answer.machine.host_memory_bytes = memory_bytes;
  // Virtual GPUs share the host's memory.
  if (is_virtual(answer.machine.gpu))
    answer.machine.gpu.memory_bytes = memory_bytes / static_cast<double>(here.size());
  return answer;
}

}  // namespace

std::optional<double> parse_count(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != '_' && c != ',' && c != ' ') digits += c;
  if (digits.empty()) return std::nullopt;
  double scale = 1;
  switch (digits.back()) {
    case 'k':
    case 'K': scale = 1e3; break;
    case 'm':
    case 'M': scale = 1e6; break;
    case 'b':
    case 'B':
    case 'g':
    case 'G': scale = 1e9; break;
    case 't':
    case 'T': scale = 1e12; break;
    default: break;
  }
  if (scale > 1) digits.pop_back();
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value) ||
      value <= 0 || value * scale > 1e18)
    return std::nullopt;
  return value * scale;
}

Result<MachineAnswer> machine_from(const MachineWish& wish, const std::vector<GpuInfo>& here,
                                   int cores, double memory_bytes) {
  MachineAnswer answer;
  if (wish.nodes < 1 || wish.nodes > 4096)
    return usage_error(fmt::format("--nodes {}", wish.nodes), "give a number from 1 to 4096");
  if (wish.gpus.empty()) {
    auto found = this_machine(here, cores, memory_bytes);
    if (!found) return found;
    answer = std::move(*found);
  } else {
    auto named = TRY(count_and_name(wish.gpus));
    auto kind = TRY(kind_from(named.second, answer.notes));
    answer.machine.gpu = kind;
    answer.machine.gpus_a_node = named.first;
    const bool cores_for_gpus = is_virtual(kind);
    answer.machine.cores_a_node = cores_for_gpus ? cores : 12 * named.first;
    answer.machine.host_memory_bytes =
        cores_for_gpus ? memory_bytes : 2 * named.first * kind.memory_bytes;
    if (cores_for_gpus)
      answer.machine.gpu.memory_bytes = memory_bytes / named.first;
    else if (!wish.cores)
      answer.notes.push_back("12 cores a GPU");
    if (!cores_for_gpus && !wish.host_memory_bytes)
      answer.notes.push_back("host memory twice that of the GPUs");
  }
  PlannedMachine& machine = answer.machine;
  machine.nodes = wish.nodes;
  machine.hides_communication = !is_virtual(machine.gpu);
  if (wish.cores) machine.cores_a_node = *wish.cores;
  if (wish.host_memory_bytes) machine.host_memory_bytes = *wish.host_memory_bytes;
  if (!wish.links.empty() && wish.links != "nvlink" && wish.links != "pcie")
    return usage_error(fmt::format("--links {}", printable(wish.links)), "nvlink or pcie");
  if (wish.links == "nvlink" && machine.gpu.nvlink_bytes_s == 0)
    return usage_error(fmt::format("--links nvlink: a {} has none", machine.gpu.name),
                       "leave it out, or use --links pcie");
  const bool by_bridge =
      machine.gpu.nvlink_bytes_s > 0 && machine.gpu.nvlink_bytes_s < kNeedsABridge;
  if (wish.links == "pcie" || (by_bridge && wish.links.empty())) {
    if (by_bridge && machine.gpus_a_node > 1)
      answer.notes.push_back("no NVLink bridge (--links nvlink where there is one)");
    machine.gpu.nvlink_bytes_s = 0;
  }
  machine.link_bytes_s = reachable_link_bytes_s(machine.gpu);
  const double gbit = wish.network_gbit_s.value_or(
      machine.gpu.half_tflops > 500 && machine.gpu.nvlink_bytes_s > 0 ? kUsualFastNetworkGbit
                                                                      : kUsualNetworkGbit);
  if (wish.nodes > 1 && !wish.network_gbit_s)
    answer.notes.push_back(
        fmt::format("{:.0f} Gbit/s between nodes (--network says otherwise)", gbit));
  machine.network_bytes_s = 0.8 * gbit / 8 * kGigabyte;
  return answer;
}

}  // namespace lockstep
