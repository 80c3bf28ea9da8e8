#include "doctor/hardware_checks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>

#include "base/text.hpp"
#include "lockstep/xid.hpp"

namespace lockstep {
namespace {

std::string list_of(const std::vector<int>& gpus) {
  std::vector<std::string> words;
  for (const int gpu : gpus) words.push_back(std::to_string(gpu));
  return "GPU " + join(words, ", ");
}

std::string link_words(const PcieLink& link) {
  return fmt::format("generation {} x{}", link.generation, link.width);
}

// A question about each GPU: nothing where a GPU does not say.
template <class Ask>
Check about_all(const DriverFacts& facts, const char* question, const char* next, Ask ask) {
  std::vector<int> no;
  std::vector<int> silent;
  std::set<std::string> seen;
  for (const GpuHardware& gpu : facts.gpus) {
    std::string words;
    const std::optional<bool> good = ask(gpu, words);
    if (!words.empty()) seen.insert(words);
    if (!good)
      silent.push_back(gpu.index);
    else if (!*good)
      no.push_back(gpu.index);
  }
  const std::vector<std::string> listed(seen.begin(), seen.end());
  std::string detail = join(listed, "; ");
  if (!no.empty())
    detail = list_of(no) + (detail.empty() ? "" : ": " + detail);
  else if (silent.size() == facts.gpus.size() && detail.empty())
    detail = "the driver does not say";
  else if (!silent.empty() && detail.empty())
    detail = list_of(silent) + ": the driver does not say";
  const Answer answer = !no.empty() ? Answer::no : silent.empty() ? Answer::yes : Answer::unknown;
  return {"GPU", question, answer, detail, answer == Answer::no ? next : ""};
}

Check pcie_check(const DriverFacts& facts) {
  return about_all(
      facts, "PCIe link as wide as it can be",
      "reseat the card, and compare the slot with `nvidia-smi -q -d PCIE`; lockstep explain H603",
      [](const GpuHardware& gpu, std::string& words) -> std::optional<bool> {
        if (!gpu.pcie_now || !gpu.pcie_possible) return std::nullopt;
        words = fmt::format("{} of {}", link_words(*gpu.pcie_now), link_words(*gpu.pcie_possible));
        if (gpu.pcie_now->width < gpu.pcie_possible->width) return false;
        if (gpu.pcie_now->generation >= gpu.pcie_possible->generation) return true;
        if (!gpu.busy) {
          words += " (idle links rest at a lower generation: ask again under load)";
          return std::nullopt;
        }
        return false;
      });
}

void add_topology(const DriverFacts& facts, Checks& checks) {
  if (facts.gpus.size() < 2) {
    checks.push_back({"links", "GPUs reach each other directly (P2P)", Answer::unknown,
                      facts.gpus.empty() ? "no GPU" : "one GPU alone", ""});
    return;
  }
  std::vector<std::string> without;
  std::size_t known = 0;
  std::size_t cannot = 0;
  std::map<std::string, std::size_t> paths;
  for (const GpuPair& pair : facts.pairs) {
    if (!pair.path.empty()) ++paths[pair.path];
    if (!pair.peer_to_peer) continue;
    // GPUs of a kind that cannot are as they should be.
    if (!*pair.peer_to_peer && pair.never_can) {
      ++cannot;
      continue;
    }
    ++known;
    if (!*pair.peer_to_peer)
      without.push_back(fmt::format("{} and {} ({})", pair.a, pair.b, pair.peer_status));
  }
  std::vector<std::string> path_list;
  for (const auto& [path, count] : paths)
    path_list.push_back(fmt::format("{} pair{} over {}", count, count == 1 ? "" : "s", path));
  std::string detail = join(path_list, ", ");
  if (without.size() > 4) without.resize(4);
  if (!without.empty())
    detail = "not GPU " + join(without, ", ") + (detail.empty() ? "" : "; " + detail);
  if (cannot > 0)
    detail = fmt::format("GPUs of this kind cannot: {} pair{}", cannot, cannot == 1 ? "" : "s") +
             (detail.empty() ? "" : "; " + detail);
  const Answer answer = !without.empty()              ? Answer::no
                        : known == facts.pairs.size() ? Answer::yes
                                                      : Answer::unknown;
  checks.push_back({"links", "GPUs reach each other directly (P2P)", answer,
                    detail.empty() ? "the driver does not say" : detail,
                    answer == Answer::no
                        ? "gradients go through the host's memory: bind ranks to one socket, check "
                          "ACS in the BIOS (`nvidia-smi topo -m`, `nvidia-smi topo -p2p r`)"
                        : ""});
  std::vector<std::string> nodes;
  for (const GpuHardware& gpu : facts.gpus)
    nodes.push_back(gpu.numa_node ? fmt::format("GPU {} on node {}", gpu.index, *gpu.numa_node)
                                  : fmt::format("GPU {} on none", gpu.index));
  const bool any_node = std::ranges::any_of(
      facts.gpus, [](const GpuHardware& gpu) { return gpu.numa_node.has_value(); });
  checks.push_back({"links", "NUMA node of each GPU", any_node ? Answer::yes : Answer::unknown,
                    any_node ? join(nodes, ", ") + "; `lockstep launch --bind` keeps ranks there"
                             : "this machine has one node, or does not say",
                    ""});
}

// In a slot, where a bridge may wire two of them; modules on a board (SXM) are always wired.
bool is_a_card(const std::string& name) {
  for (const char* const part :
       {"PCIe", "PCIE", "NVL", "RTX", "GeForce", "Quadro", "TITAN", "A40", "A30"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

Check nvlink_check(const DriverFacts& facts) {
  return about_all(facts, "NVLinks are up",
                   "see `nvidia-smi nvlink -s`; a fabric manager that does not run leaves them "
                   "down on NVSwitch machines (systemctl status nvidia-fabricmanager)",
                   [alone = facts.gpus.size() == 1](const GpuHardware& gpu,
                                                    std::string& words) -> std::optional<bool> {
                     if (!gpu.nvlinks_up) {
                       words = "no NVLink";
                       return std::nullopt;
                     }
                     words = fmt::format("{} up, {} down", *gpu.nvlinks_up,
                                         gpu.nvlinks_down.value_or(0));
                     if (*gpu.nvlinks_up == 0 && (alone || is_a_card(gpu.name))) {
                       words += alone ? ": wired to nobody" : ": no bridge";
                       return std::nullopt;
                     }
                     return gpu.nvlinks_down.value_or(0) == 0;
                   });
}

// Kernel: [12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=...
Check xid_check(const std::optional<std::string>& kernel_log) {
  Check check{"GPU", "no Xid in the kernel's log", Answer::unknown, "the log is not ours to read",
              ""};
  if (!kernel_log) return check;
  std::string last;
  std::size_t faults = 0;
  std::size_t of_programs = 0;
  for (const std::string_view line : split(*kernel_log, '\n')) {
    const auto at = line.find("NVRM: Xid");
    if (at == std::string_view::npos) continue;
    const std::string_view words = line.substr(at, 60);
    const auto number_at = words.find("): ");
    int number = 0;
    if (number_at != std::string_view::npos)
      std::from_chars(words.data() + number_at + 3, words.data() + words.size(), number);
    const bool of_program = is_of_a_program(number);
    (of_program ? of_programs : faults) += 1;
    if (!of_program || faults == 0) last = words;
  }
  check.answer = faults > 0 ? Answer::no : of_programs > 0 ? Answer::unknown : Answer::yes;
  check.detail =
      faults + of_programs == 0
          ? "none since boot, as far as the log reaches"
          : fmt::format("{} of the hardware, {} of programs (13, 31, 43, 45, 68) since boot; {}",
                        faults, of_programs, last);
  if (faults > 0)
    check.next = "look the number up in NVIDIA's Xid catalogue; lockstep explain H604";
  return check;
}

}  // namespace

Checks hardware_checks(const DriverFacts& facts, const std::optional<std::string>& kernel_log) {
  Checks checks;
  checks.push_back({"driver", "driver version", facts.driver ? Answer::yes : Answer::unknown,
                    facts.driver.value_or("the driver does not say"), ""});
  checks.push_back(
      {"driver", "CUDA that the driver runs", facts.cuda ? Answer::yes : Answer::unknown,
       facts.cuda ? fmt::format("up to {}", *facts.cuda) : "the driver does not say", ""});
  if (facts.gpus.empty()) return checks;
  checks.push_back(
      about_all(facts, "persistence mode",
                "without it the driver unloads with the last process and the next start takes "
                "seconds: nvidia-smi -pm 1, or nvidia-persistenced, as root",
                [](const GpuHardware& gpu, std::string& words) {
                  if (gpu.persistence) words = *gpu.persistence ? "on" : "off";
                  return gpu.persistence;
                }));
  checks.push_back(about_all(facts, "ECC counts no lost data",
                             "memory errors that were not corrected: nvidia-smi -q -d "
                             "ECC,PAGE_RETIREMENT,ROW_REMAPPER; lockstep explain H604",
                             [](const GpuHardware& gpu, std::string& words) -> std::optional<bool> {
                               if (gpu.ecc && !*gpu.ecc) words = "ECC is off";
                               if (!gpu.ecc_uncorrected) return std::nullopt;
                               words =
                                   fmt::format("{} corrected, {} not, since boot",
                                               gpu.ecc_corrected.value_or(0), *gpu.ecc_uncorrected);
                               return *gpu.ecc_uncorrected == 0;
                             }));
  checks.push_back(xid_check(kernel_log));
  Check pcie = pcie_check(facts);
  pcie.group = "links";
  checks.push_back(std::move(pcie));
  Check nvlink = nvlink_check(facts);
  nvlink.group = "links";
  checks.push_back(std::move(nvlink));
  add_topology(facts, checks);
  return checks;
}

std::optional<std::string> read_kernel_log() {
  const int file = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  char record[8192];
  constexpr std::size_t kMost = 16U << 20U;
  while (text.size() < kMost) {
    const ssize_t got = ::read(file, record, sizeof record);
    if (got < 0 && errno == EPIPE) continue;  // overwritten meanwhile
    if (got <= 0) {
      if (text.empty() && got < 0 && errno != EAGAIN) {
        ::close(file);
        return std::nullopt;
      }
      break;
    }
    text.append(record, static_cast<std::size_t>(got));
    text += '\n';
  }
  ::close(file);
  return text;
}

}  // namespace lockstep
