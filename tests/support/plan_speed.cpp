// How many settings the planner tries in a millisecond, and what a whole plan takes: for
// scripts/bench.
#include <chrono>
#include <cstdio>

#include "model/known_models.hpp"
#include "plan/machine_words.hpp"
#include "plan/make_plan.hpp"

int main() {
  using namespace lockstep;
  using Clock = std::chrono::steady_clock;
  PlanRequest request;
  auto machine = machine_from({.gpus = "8xH100-80GB", .nodes = 4}, {}, 2, 24e9);
  if (!machine) return 1;
  request.machine = machine->machine;
  request.workload.net = *known_model("llama-8b");
  request.workload.sequence_length = 2048;
  std::size_t tried = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < 200; ++i) tried += search(request, request.machine.gpus()).tried;
  const std::chrono::duration<double, std::milli> searching = Clock::now() - begin;
  const auto plan_begin = Clock::now();
  for (int i = 0; i < 20; ++i)
    if (!make_plan(request)) return 1;
  const std::chrono::duration<double, std::milli> planning = Clock::now() - plan_begin;
  std::printf("%.0f settings a millisecond; a plan %.3f ms\n",
              static_cast<double>(tried) / searching.count(), planning.count() / 20);
}
