// Changes one thing of made-up signals, and what follows from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep::testing {

// The same run as a log of utilization and plain power shows it: no power samples, no SM, so nobody
// knows who spins.
Signals seen_by_busy_alone(Signals signals);

// The same run without a process list: its GPUs are joined because they behave alike.
Signals without_processes(Signals signals);

// The same run with marks of 200 healthy steps on every rank.
Signals with_steps(Signals signals);

// A share of every rank's step time; the part is there in every step.
void give_part(StepSignals& steps, std::string_view part, double share);
void give_part_to_rank(StepSignals& steps, int rank, std::string_view part, double share);

// `busy` and `hollow` of one GPU of the first job, with the work that follows from them.
void load_gpu(Signals& signals, int gpu, double busy, double hollow);

// Mean power as a share of the limit, on every GPU of a job.
void draw_power(Signals& signals, double of_limit);

// Stalls of `length_ms`, one every `period_ms`, in the first job.
void stall_every(Signals& signals, double period_ms, const Stall& like, double length_ms);

void set_environment(Signals& signals, const std::string& name, const std::string& value);
void set_libraries(Signals& signals, const std::vector<std::string>& libraries);

// The share of a GPU's working time in which a clock limit was set, and the clock meanwhile.
void limit_clock(Signals& signals, int gpu, ClockLimit limit, double share, double clock_mhz);

}  // namespace lockstep::testing
