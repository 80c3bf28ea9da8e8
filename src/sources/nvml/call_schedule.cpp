#include "sources/nvml/call_schedule.hpp"

#include <algorithm>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// The period is shaken by this much either way, so that training steps cannot fall in with it.
constexpr double kJitter = 0.05;
// What is due within this share of an interval joins the call at hand: one wake-up, one line.
constexpr double kJoins = 0.3;
// Slower than this, a reading is of no use to a person watching.
constexpr CallSchedule::Time kSlowest = 60s;
// How much a new cost counts against the old mean: ten or so readings make the figure.
constexpr double kNewCostWeight = 0.1;
// Until so many readings the least of them counts: first calls pay for the driver's own set-up, and
// one in a few waits for its refresh (utilization on an H200: 0.4 us, now and then 2 ms).
constexpr int kFirstReadings = 8;

}  // namespace

CallSchedule::CallSchedule(const ScheduleOptions& options, std::size_t gpu_count, Time start)
    : options_(options),
      interval_(options.interval),
      budget_(options.budget),
      gpu_count_(static_cast<double>(gpu_count)),
      random_(options.seed) {
  wish_all(start);
}

void CallSchedule::wish_all(Time start) {
  const auto wish = [&](CallKind kind, Time period) {
    Plan& old = plan(kind);
    // What was due later than its new period allows comes sooner; nothing else is hurried.
    const Time due = old.period > Time{} ? std::min(old.due, start + period) : start;
    old = {period, std::max(kSlowest, period), period, due, old.cost_ns, old.measurements};
  };
  for (const CallKind kind : {CallKind::busy, CallKind::clocks, CallKind::power})
    wish(kind, interval_);
  // Costs of one H200 (design): memory 4 us, field values 118 us, the power buffer 1.4 ms and 2.4 s
  // long.
  wish(CallKind::memory, std::max<Time>(interval_, 500ms));
  wish(CallKind::temperature, std::max<Time>(interval_, 1s));
  wish(CallKind::limits, std::max<Time>(interval_, 500ms));
  wish(CallKind::power_samples, std::min<Time>(options_.power_samples_period, 2s));
  wish(CallKind::gpm, std::max<Time>(interval_, options_.gpm_period));
  wish(CallKind::byte_counters, std::max<Time>(interval_, options_.byte_counters_period));
  wish(CallKind::events, std::max<Time>(interval_, 1s));
  wish(CallKind::processes, std::max<Time>(interval_, options_.process_period));
  limit_period(CallKind::power_samples, 2s);
}

void CallSchedule::set_interval(Time interval, Time now) {
  if (interval == interval_) return;
  interval_ = interval;
  wish_all(now);
  replan();
}

std::vector<CallKind> CallSchedule::take_due(Time now) {
  const Time joins = std::chrono::duration_cast<Time>(interval_ * kJoins);
  std::vector<CallKind> due;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    Plan& plan = plans_[i];
    if (plan.due > now + joins) continue;
    due.push_back(static_cast<CallKind>(i));
    // The next one is counted from when this was due, so that the mean rate is exact; unless we
    // fell behind (a call that blocked, a machine that slept): what was missed is missed.
    plan.due = plan.due + plan.period > now ? plan.due + plan.period : now + plan.period;
  }
  return due;
}

CallSchedule::Time CallSchedule::next_wake() {
  const auto next =
      std::ranges::min_element(plans_, [](const Plan& a, const Plan& b) { return a.due < b.due; });
  std::uniform_real_distribution<double> shake(-kJitter, kJitter);
  // Never by more than the call at hand allows: the power buffer is due every 2 s at any interval.
  return next->due +
         std::chrono::duration_cast<Time>(std::min(interval_, next->period) * shake(random_));
}

void CallSchedule::measured(CallKind kind, std::chrono::nanoseconds cost) {
  Plan& entry = plan(kind);
  const auto cost_ns = static_cast<double>(cost.count());
  ++entry.measurements;
  if (entry.measurements == 1 || (entry.measurements <= kFirstReadings && cost_ns < entry.cost_ns))
    entry.cost_ns = cost_ns;
  if (entry.measurements > kFirstReadings)
    entry.cost_ns += kNewCostWeight * (cost_ns - entry.cost_ns);
}

void CallSchedule::limit_period(CallKind kind, std::chrono::nanoseconds longest) {
  // GPUs of several kinds: the shortest buffer counts
  plan(kind).longest = std::min<Time>(plan(kind).longest, longest);
  plan(kind).wished = std::min<Time>(plan(kind).wished, longest);
  plan(kind).period = std::min<Time>(plan(kind).period, longest);
}

double CallSchedule::load_of(const Plan& plan) const {
  return plan.cost_ns * gpu_count_ / static_cast<double>(plan.period.count());
}

double CallSchedule::load() const {
  double sum = 0;
  for (const Plan& plan : plans_) sum += load_of(plan);
  return sum;
}

std::chrono::nanoseconds CallSchedule::cost(CallKind kind) const {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(plan(kind).cost_ns));
}

void CallSchedule::replan() {
  for (Plan& plan : plans_) plan.period = plan.wished;
  while (load() > budget_) {
    Plan* dearest = nullptr;
    for (Plan& plan : plans_)
      if (plan.period * 2 <= plan.longest &&
          (dearest == nullptr || load_of(plan) > load_of(*dearest)))
        dearest = &plan;
    // the rest cannot be slowed: its cost is shown
    if (dearest == nullptr || load_of(*dearest) == 0) return;
    dearest->period *= 2;
  }
}

}  // namespace lockstep
