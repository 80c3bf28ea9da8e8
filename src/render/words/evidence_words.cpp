// Evidence as a person would say it.
//
// In JSON a piece of evidence keeps the name of its signal. In words a name is often not enough:
// "own hollow 8 %" is "it waits 8 % of the time that it reads busy". What stands in the table is
// said so; every other name reads as it is.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

struct Phrase {
  std::string_view signal;
  std::string_view words;  // {}: the value with its unit
};

constexpr std::array kPhrases = {
    // who works when
    Phrase{"exclusive_busy", "one alone is busy {} of the time"},
    Phrase{"exclusive_by_chance", "by chance it would be {}"},
    Phrase{"exclusive_by_records", "by the GPUs' own records one alone works {} of the time"},
    Phrase{"busy_sum", "together they are as busy as {}"},
    Phrase{"lane_correlation", "their activity correlates by {}"},
    Phrase{"turn_period_ms", "a round of turns takes {}"},
    Phrase{"hand_overs", "the work changes hands {} times"},
    Phrase{"hand_overs_a_step", "the work changes hands {} per step"},
    Phrase{"idle_together", "all GPUs rest at once {} of the time"},
    Phrase{"bubble", "stages are empty {} of the time"},
    Phrase{"memory_lead", "GPU 0 holds {} times the memory of the others"},
    // who waits for whom
    Phrase{"others_hollow", "the others wait {} of the time that they read busy"},
    Phrase{"own_hollow", "it waits {} itself"},
    Phrase{"hollow_on_every_gpu", "every GPU waits {} of the time that it reads busy"},
    Phrase{"waiting_gap", "they wait {} longer than it does"},
    Phrase{"others_rest", "the others rest {} of the time"},
    Phrase{"works_while_they_rest", "{} of their waiting is for it"},
    Phrase{"others_wait_share", "the others wait {} of a step"},
    Phrase{"own_wait_share", "it waits {} of a step itself"},
    Phrase{"others_wait_for_it", "the others wait for it {} of the time"},
    Phrase{"share_of_all_lateness", "{} of all lateness is its own"},
    Phrase{"last_at_collectives", "it comes last to {} of the collectives"},
    Phrase{"late_since_its_host_asked_late", "late since its host asked late: {}"},
    Phrase{"late_since_its_gpu_was_busy", "late since its GPU still had work: {}"},
    Phrase{"late_share", "it comes last to {} of the collectives"},
    Phrase{"late_a_step_ms", "it is late by {} per step"},
    Phrase{"others_in_collectives", "the others spend {} in collectives"},
    Phrase{"itself_in_collectives", "it spends {} there"},
    Phrase{"busy_of_the_others", "the others are busy {} of the time"},
    Phrase{"own_busy", "it is busy {} of the time"},
    Phrase{"sm_of_the_others", "the others fill {} of their SMs"},
    Phrase{"own_sm", "it fills {}"},
    Phrase{"own_clock_mhz", "its clock is at {}"},
    Phrase{"clock_of_the_others_mhz", "those of the others at {}"},
    Phrase{"ranks_wait_for_each_other", "ranks wait for each other {} of the time"},
    Phrase{"most_waited_for_rank", "{} of it for one and the same rank"},
    Phrase{"most_often_last", "one and the same rank is last in {} of the steps"},
    Phrase{"steps_begun_together", "{} of the steps begin together"},
    Phrase{"transfers_alone", "transfers alone take {} of the time"},
    // the host
    Phrase{"main_process_cpu", "the main process uses {}"},
    Phrase{"waits_for_a_core", "it waits for a core {} of the time"},
    Phrase{"workers_at_work", "loader workers are at work {} of the time"},
    Phrase{"waits_while_workers_work", "it waits while its workers make batches {} of the time"},
    Phrase{"in_the_loader_while_gpus_rest",
           "it is in the loader while the GPUs rest {} of the time"},
    Phrase{"main_thread_reads_files", "the main thread reads files {} of the time"},
    Phrase{"main_thread_writes", "the main thread writes {} of the time"},
    Phrase{"main_thread_sleeps", "the main thread sleeps {} of the time"},
    Phrase{"main_thread_in_a_lock", "the main thread waits for a lock {} of the time"},
    Phrase{"main_thread_waits_for_a_server", "the main thread waits for a server {} of the time"},
    Phrase{"main_thread_runs_while_gpus_rest",
           "the main thread computes while the GPUs rest {} of the time"},
    Phrase{"there_while_the_gpus_rested", "it is there while the GPUs rest {} of the time"},
    Phrase{"launches_while_the_gpus_rest", "it launches while the GPUs rest {} of the time"},
    Phrase{"waiting_for_disk", "waits for the disk {} of the time"},
    Phrase{"left_for_the_queue",
           "{} of a step would stay: a batch that workers made takes 1 ms to arrive"},
    Phrase{"hidden_behind_the_gpu", "{} of it is hidden behind the GPU's work"},
    Phrase{"data_wait_share", "waits for data {} of a step"},
    Phrase{"data_wait_p50_ms", "{} in a typical step"},
    Phrase{"data_wait_longest_ms", "{} in the longest"},
    // the GPU
    Phrase{"filled_while_busy", "its kernels fill {} of the GPU while it is busy"},
    Phrase{"power_of_limit", "it draws {} of its power limit"},
    Phrase{"clock_kept", "its clock is {} of what it could be"},
    Phrase{"capped_share", "the power limit holds it back {} of the time"},
    Phrase{"throttled_share", "heat holds it back {} of the time"},
    Phrase{"idle_while_launching", "it rests {} of the time while kernels are launched"},
    Phrase{"gaps_a_step", "{} between kernels per step"},
    Phrase{"busy_without_records", "its GPUs are {} busy in steps without records"},
    Phrase{"kernels_a_step", "{} per step"},
    Phrase{"queueing_share", "queueing the work takes {} of a step"},
    Phrase{"steps_done_as_soon_as_queued", "{} of the steps are done as soon as they are queued"},
};

// What is so, without a number.
constexpr std::array kFacts = {
    Phrase{"slow_on_the_gpu", "its GPU works while they wait"},
    Phrase{"late_on_the_host", "its GPU has nothing to do while they wait"},
    Phrase{"found_by_the_machine_itself", "the machine itself found it"},
    Phrase{"readings_ended", "its readings end before those of the others"},
};

std::string amount(double value, const std::string& unit) {
  if (unit == "fraction")
    return fmt::format("{:.{}f} %", value * 100, value > 0 && value < 0.01 ? 1 : 0);
  if (unit == "bytes") return format_bytes(value);
  if (unit == "bytes/s") return format_bytes(value) + "/s";
  if (unit == "mW") return fmt::format("{:.0f} W", value / 1e3);
  if (unit == "ms" && value >= 1000) return fmt::format("{:.1f} s", value / 1e3);
  if (unit == "ms")
    return fmt::format("{:.{}f} ms", value, value == std::floor(value) || value >= 10 ? 0 : 2);
  if (unit == "ratio" || unit == "correlation") return fmt::format("{:.2f}", value);
  if (unit == "GPUs" || unit == "cores")
    return fmt::format("{:.2f} {}", value,
                       std::abs(value - 1) < 0.005 ? unit.substr(0, unit.size() - 1) : unit);
  if (unit == "yes" || unit == "set") return value != 0 ? unit : "no";
  if (unit == "times") return fmt::format("{:.1f} times", value);
  if (unit == "number") return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f} {}", value, value == std::floor(value) ? 0 : 2, unit);
}

// "late_by_data_wait": what the late rank spends and the others do not.
std::optional<std::string> lateness_words(const std::string& signal, const std::string& value) {
  constexpr std::string_view kLateBy = "late_by_";
  if (!signal.starts_with(kLateBy)) return std::nullopt;
  std::string part = signal.substr(kLateBy.size());
  std::ranges::replace(part, '_', ' ');
  return fmt::format("its {} takes {} of a step longer", part == "other" ? "other code" : part,
                     value);
}

// The name of a signal without a phrase, as it reads.
std::string name_words(const Evidence& evidence) {
  std::string name = printable(evidence.signal);
  if (name.find('=') == std::string::npos) std::ranges::replace(name, '_', ' ');
  if (name.ends_with(" ms")) name.resize(name.size() - 3);
  return name;
}

// "loader workers 4", not "loader workers 4 processes".
std::string unit_beside(const std::string& name, const std::string& unit) {
  const bool counts = unit == "processes" || unit == "ranks" || unit == "stalls" || unit == "GPUs";
  const bool said =
      counts && (name.ends_with(unit) || name.ends_with("gpus") || name.ends_with("workers"));
  return said ? "number" : unit;
}

}  // namespace

std::string evidence_words(const Evidence& evidence) {
  if (evidence.unit == "message") return printable(evidence.signal);
  const std::string name = name_words(evidence);
  const std::string unit = unit_beside(name, std::string(evidence.unit.text()));
  const std::string value = amount(evidence.value, unit);
  const auto phrase = std::ranges::find(kPhrases, evidence.signal, &Phrase::signal);
  const auto fact = std::ranges::find(kFacts, evidence.signal, &Phrase::signal);
  std::string words;
  if (unit == "yes" && evidence.value != 0 && fact != kFacts.end())
    words = fact->words;
  else if (const auto lateness = lateness_words(evidence.signal, value))
    words = *lateness;
  else if (phrase != kPhrases.end())
    words = fmt::format(fmt::runtime(phrase->words), value);
  else
    words = name + " " + value;
  if (evidence.threshold)
    words += fmt::format(" (threshold {})", amount(*evidence.threshold, unit));
  return words;
}

}  // namespace lockstep
