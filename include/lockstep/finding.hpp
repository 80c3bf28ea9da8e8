// The findings lockstep can make: their codes, their names, and what one carries.
//
// A code is never reused. Families: P split of work, D data, S host, C collectives, B batch, memory
// and precision, H hardware, X code and configuration, L launch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/advice.hpp"
#include "lockstep/known_word.hpp"
#include "lockstep/ledger.hpp"

namespace lockstep {

enum class FindingCode : std::uint16_t {
#define FINDING(code, ...) code,
#include "lockstep/finding_catalogue.def"
#undef FINDING
};

// Where lockstep sees a finding; the catalogue says what each is.
enum class KnownBy : std::uint8_t {
  outside = 1,
  steps = 2,
  trace = 4,
  message = 8,
  dump = 16,
  code = 32,
  launch = 64,
};
constexpr KnownBy operator|(KnownBy a, KnownBy b) {
  return static_cast<KnownBy>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool includes(KnownBy all, KnownBy one) {
  return (static_cast<unsigned>(all) & static_cast<unsigned>(one)) != 0;
}
inline constexpr std::array<std::pair<KnownBy, std::string_view>, 7> kKnownByNames = {
    {{KnownBy::outside, "outside"},
     {KnownBy::steps, "steps"},
     {KnownBy::trace, "trace"},
     {KnownBy::message, "message"},
     {KnownBy::dump, "dump"},
     {KnownBy::code, "code"},
     {KnownBy::launch, "launch"}}};

// A row of the catalogue, less what other layers make of it.
enum class FindingKind : std::uint8_t {
  cost,   // told from 2 % of the throughput on
  fault,  // wrong whatever it costs
  shared  // what one job loses another one has: the GPUs lose nothing
};

struct FindingName {
  FindingCode code;
  std::string_view id;       // "P101"
  std::string_view name;     // "taking-turns"
  std::string_view summary;  // in one line
  KnownBy known_by;
  FindingKind kind;
  LedgerPart part;         // of the ledger that its cost comes from
  std::string_view rules;  // of `lockstep fix`, parted by blanks
};

inline constexpr auto kFindingNames = [] {
  using enum KnownBy;
  using enum FindingKind;
  return std::array{
#define FINDING(code, id, name, summary, known_by, kind, part, detector, rules, advice) \
  FindingName{FindingCode::code, id, name, summary, known_by, kind, LedgerPart::part, rules},
#include "lockstep/finding_catalogue.def"
#undef FINDING
  };
}();

// The table is in the order of the enumeration, so that a code is also its row.
constexpr const FindingName& name_of(FindingCode code) {
  return kFindingNames[static_cast<std::size_t>(code)];
}

// The row with this id or this name; null: there is none.
constexpr const FindingName* finding_named(std::string_view id_or_name) {
  for (const FindingName& row : kFindingNames)
    if (row.id == id_or_name || row.name == id_or_name) return &row;
  return nullptr;
}

enum class Severity : std::uint8_t { info, warning, critical };

// What a number counts. "message", "set" and "yes" stand for a fact.
struct EvidenceUnits {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"fraction", "ms",      "s",     "us",      "bytes",     "bytes/s", "mW",      "MHz",
       "cores",    "GPUs",    "ranks", "hosts",   "processes", "passes",  "batches", "calls",
       "stalls",   "kernels", "times", "ratio",   "number",    "retries", "rank",    "correlation",
       "message",  "set",     "yes",   "samples", "tensors",   "gaps",    "C",       "a second"});
};
using EvidenceUnit = KnownWord<EvidenceUnits>;

// One number that speaks for a finding, with the line it crossed.
struct Evidence {
  std::string signal;
  double value = 0;
  std::optional<double> threshold;
  EvidenceUnit unit;
};
// Signals that say that a finding is no rate: a job has stopped; something happened too few times
// to tell how often it comes.
inline constexpr std::string_view kNothingHasRun = "nothing_has_run_ms";
inline constexpr std::string_view kHappened = "happened";

struct SourceLine {
  std::string file;
  int line = 0;
};

// GPUs of one machine among several, by their numbers there.
struct HostGpus {
  std::string host;
  std::vector<int> gpus;

  bool operator==(const HostGpus&) const = default;
};

struct Finding {
  FindingCode code = FindingCode::taking_turns;
  Severity severity = Severity::warning;
  double confidence = 0;  // 0..1
  // share of its job's possible throughput that this finding alone would give back
  double lost_throughput = 0;
  // of all GPUs that lose time by it, not only the guilty one's
  double lost_gpu_hours_a_day = 0;
  bool is_fault = false;  // wrong whatever it costs
  // another finding of the same report whose loss this one explains: counted once
  std::optional<FindingCode> cause_of;
  std::vector<int> gpus;
  std::vector<HostGpus> hosts;  // the same GPUs, where several machines were watched
  std::vector<int> pids;
  std::vector<int> ranks;
  std::vector<SourceLine> where;
  // of the evidence ladder: 0 from outside, 1 by probes in the processes, 2 by the GPU's own
  // records
  int rung = 0;
  std::string reason;  // of a finding in code: why the lines hold the GPUs back
  std::vector<Evidence> evidence;
  std::vector<Fix> fixes;
};

inline bool is_a_fault(const Finding& finding) {
  return finding.is_fault || name_of(finding.code).kind == FindingKind::fault;
}

// lockstep stands behind a finding with confidence of at least 0.5 that costs at least 2 %, or that
// is a fault; a weaker one is a suspicion.
inline bool is_stood_behind(const Finding& finding) {
  constexpr double kSureEnough = 0.5;
  constexpr double kWorthwhile = 0.02;
  return finding.confidence >= kSureEnough &&
         (is_a_fault(finding) || finding.lost_throughput >= kWorthwhile);
}

}  // namespace lockstep
