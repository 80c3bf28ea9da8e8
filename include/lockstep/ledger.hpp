// Where a job's GPU time went: every moment of every GPU of the job belongs to one part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

enum class LedgerPart : std::uint8_t {
  working,
  input,      // no data to work on
  launching,  // the host queues kernels too slowly
  sync,       // the host waits for the GPU, which then has nothing queued
  logging,
  checkpoint,  // saving
  evaluation,
  gc,          // Python's collector
  host_code,   // other code of the host, or no core to run it on
  other_rank,  // another rank comes later
  link,        // data travels between the ranks
  turn,        // another GPU works first
  slowed,      // by power, heat or clocks
  unused,      // held, and nothing to do all the time
  unknown,
};
inline constexpr std::array<std::string_view, 15> kLedgerPartNames = {
    "working",   "input",      "launching", "sync", "logging", "checkpoint", "evaluation", "gc",
    "host_code", "other_rank", "link",      "turn", "slowed",  "unused",     "unknown"};

// A cause that is as likely as not is told, and its time is not known: charged is what is surer.
inline constexpr double kChargedFrom = 0.51;

struct Ledger {
  double gpu_seconds = 0;  // of all its GPUs together
  // Nothing showed whether a busy GPU works or waits for others: `working` holds both.
  bool waiting_is_known = true;
  std::array<double, kLedgerPartNames.size()> share{};  // of them; the sum is 1
  double unread = 0;  // of `unknown`, what has no readings: a log with holes, a GPU that is gone

  double& operator[](LedgerPart part) { return share[static_cast<std::size_t>(part)]; }
  double operator[](LedgerPart part) const { return share[static_cast<std::size_t>(part)]; }
};

}  // namespace lockstep
