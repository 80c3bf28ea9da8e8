// H604: the driver reported a hardware or driver error (Xid, ECC).
//
// Why it shows: NVML's events, or the same in a recording. Xid 13, 31, 43, 45 and 68 usually come
// from the program (bad address, killed process); 48, 63, 64, 74, 79, 94, 95, 119 from the hardware
// or the driver. Blind: events from before the watch; in a container the kernel log is out of
// reach.
#include <charconv>
#include <set>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"
#include "lockstep/xid.hpp"

namespace lockstep {

std::vector<Finding> find_ecc_or_xid(const Seen& seen) {
  std::vector<Finding> findings;
  std::set<std::pair<std::optional<int>, int>> told;  // a storm of one number is one finding
  for (const EventAt& entry : seen.signals.events) {
    const bool xid = entry.event.kind == "xid";
    if (!xid && entry.event.kind.text().find("ecc") == std::string_view::npos) continue;
    int number = 0;
    const std::string& detail = entry.event.detail;
    const auto digits = detail.find_first_of("0123456789");
    if (digits != std::string::npos)
      std::from_chars(detail.data() + digits, detail.data() + detail.size(), number);
    if (!told.insert({entry.event.gpu, xid ? number : -1}).second) continue;
    const bool of_program = xid && is_of_a_program(number);
    Finding finding =
        about_gpu(FindingCode::ecc_or_xid, entry.event.gpu.value_or(0),
                  of_program ? Severity::warning : Severity::critical, 0.95, 0,
                  {{xid ? "xid" : "ecc", static_cast<double>(number), std::nullopt, "number"},
                   {"at", entry.t_ms / 1e3, std::nullopt, "s"}});
    if (!entry.event.gpu) finding.gpus.clear();
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
