// Sentences that every renderer for people uses: cost, evidence, commands, lists.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

inline constexpr std::size_t kLaneColumns = 60;
// Eight heights of a block, and none: a lane is read like a bar chart.
inline constexpr std::array<std::string_view, 9> kLaneBars = {
    " ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};

// A lane as a bar chart of one line, so many columns wide.
std::string lane_bars(const LaneRow& row, std::size_t columns);

std::string_view severity_word(Severity severity);
std::string_view safety_word(FixSafety safety);
// "GPU 0", "GPU 0, 1".
std::string gpu_list(const std::vector<int>& gpus);
// " (rank 3)", or nothing.
std::string rank_list(const Finding& finding);
// "train.py:31, run.sh:4".
std::string place_list(const Finding& finding);
// Where a job's GPU time went: "working 52 %, waiting for input 40 %, not known 8 %".
std::string ledger_words(const Ledger& ledger);
// "GPU time: " and the first job's; nothing where no GPU was seen.
std::optional<std::string> gpu_time_words(const Report& report);
// Of GPU time that nobody could explain: what it may be, the likeliest first, and what would tell.
// Nothing where all of it is explained.
// What the findings leave of the throughput; nothing without one. Where the GPUs lose far more than
// the findings explain, what is left would be a boast: then both are said.
std::optional<std::string> throughput_words(const Report& report);
std::optional<std::string> undecided_words(const Report& report);

// That the first job's GPUs hold its memory and nothing runs any more.
std::optional<std::string> held_after_words(const Report& report);

// After "no findings": nothing, or " in what was seen: ..." where a probe broke off.
std::string_view as_far_as_seen(const Report& report);

// What the loss means in time and in GPU-hours.
std::string cost_sentence(const Finding& finding);
// "one alone is busy 97 % of the time (threshold 80 %)".
std::string evidence_words(const Evidence& evidence);
// As typed in a shell, with nothing in it that a terminal would act on.
std::string command_words(const std::vector<std::string>& command);

// "data wait" of data_wait.
std::string part_words(std::size_t part);
// "0.43 ms", "12.3 s".
std::string milliseconds_words(double milliseconds);
// A path's end that fits: "…/probes/train.py:98".
std::string short_place(const std::string& file, int line, std::size_t columns);
// "Tensor.item"; of a place that was only looked at, the functions: "log_metrics".
std::string what_words(const PlaceSignals& place);
// "3.1 ms in every step", "30 ms in every 20th step, 4 calls, 93 % asleep".
std::string how_often_words(const PlaceSignals& place);
// Of a training log: "messages in run.log", and how long its steps took where it says so.
std::string log_sentence(const Report& report);
// " (97 % sure)"; empty of what is said to be unclear.
std::string how_sure_words(const Verdict& verdict);
// What a signal that a recording may lack is to people: "power every 20 ms".
std::string signal_words(const std::string& signal);
// "watched 12.5 s"; of a log without times "7 looks, taken as one second apart".
std::string watched_words(const Report& report);
// "0, 2".
std::string join_numbers(const std::vector<int>& numbers);

}  // namespace lockstep
