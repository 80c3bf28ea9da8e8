// What ranks did while their GPUs had nothing to do.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "signals/derive_signals.hpp"
#include "support/simulated_run.hpp"

namespace lockstep {
namespace {

using namespace lockstep::testing;

using LookAt = std::function<HostLook(double t_ms)>;

HostLook main_does(ThreadDoing main) {
  HostLook look;
  look.main = main;
  return look;
}

HostLook with_workers(HostLook look, ThreadDoing doing, std::uint16_t count = 4) {
  look.workers[index_of(doing)] = count;
  return look;
}

// One GPU that works 60 of each 100 ms times five, looked at every 47 ms.
JobSignals watched(const LookAt& at, int workers) {
  SimulationOptions options;
  options.seconds = 10;
  Timeline timeline = simulate({working_part(500, 0.6)}, options);
  for (int second = 1; second <= 10; ++second) {
    ProcessSample process = process_on_gpus(4242, {0});
    process.loader_workers = workers;
    const double now = second * 1000.0;
    for (double t = now - 1000; t < now; t += 47) {
      HostLook look = at(t);
      look.ago_ms = now - t;
      process.looks.push_back(look);
    }
    timeline.process_lists.push_back({now, {process}});
  }
  return derive_signals(timeline).jobs.at(0);
}

bool gpu_rests(double t) { return std::fmod(t, 500) > 300; }

TEST(HostDoing, CountsSleepOnlyWhileTheGpuRests) {
  const JobSignals job = watched(
      [](double t) { return main_does(gpu_rests(t) ? ThreadDoing::sleep : ThreadDoing::lock); }, 0);
  ASSERT_TRUE(job.host.doing);
  EXPECT_TRUE(job.host.doing->joined);
  EXPECT_NEAR(job.host.doing->sleeping, 0.4, 0.07);

  const JobSignals hidden = watched(
      [](double t) { return main_does(gpu_rests(t) ? ThreadDoing::run : ThreadDoing::sleep); }, 0);
  EXPECT_LT(hidden.host.doing->sleeping, 0.1)
      << "it sleeps while the GPU works: that costs nothing";
}

TEST(HostDoing, CountsWorkersThatWorkWhileTheMainThreadWaits) {
  const auto waits = [](ThreadDoing workers) {
    return [=](double t) {
      return with_workers(main_does(gpu_rests(t) ? ThreadDoing::lock : ThreadDoing::run), workers);
    };
  };
  const HostDoing works = *watched(waits(ThreadDoing::run), 4).host.doing;
  EXPECT_NEAR(works.for_another, 0.4, 0.07);
  EXPECT_EQ(works.workers_at_work, 1);
  EXPECT_EQ(watched(waits(ThreadDoing::sleep), 4).host.doing->workers_at_work, 1)
      << "a data set that waits for something is slow, too";
  EXPECT_EQ(watched(waits(ThreadDoing::pipe), 4).host.doing->workers_at_work, 0)
      << "their queues are full";
  EXPECT_FALSE(watched(waits(ThreadDoing::lock), 4).host.doing->workers_at_work)
      << "for a shared queue, or for threads of their own";
}

TEST(HostDoing, IsNotSaidOfAThreadThatDoesNotTrain) {
  EXPECT_FALSE(watched([](double) { return main_does(ThreadDoing::socket); }, 0).host.doing)
      << "as with Ray, where another thread trains";
}

TEST(HostDoing, IsNotSaidOfAFewLooksOrOfNone) {
  EXPECT_FALSE(watched([](double) { return HostLook{}; }, 0).host.doing) << "nothing could be read";
  const JobSignals few = watched(
      [](double t) { return t < 2600 && t > 2200 ? main_does(ThreadDoing::sleep) : HostLook{}; },
      0);
  EXPECT_FALSE(few.host.doing);
}

TEST(HostDoing, DoesNotTakeTheEdgesOfARestForItsCause) {
  SimulationOptions options;
  options.seconds = 10;
  Timeline timeline = simulate({working_part(160, 0.5)}, options);
  for (int second = 1; second <= 10; ++second) {
    ProcessSample process = process_on_gpus(4242, {0});
    const double now = second * 1000.0;
    for (double t = now - 1000; t < now; t += 43) {
      const bool works = std::fmod(t, 160) < 80;
      process.looks.push_back(main_does(works ? ThreadDoing::lock : ThreadDoing::sleep));
      process.looks.back().ago_ms = now - t;
      process.stacks.push_back(
          {now - t,
           {{works ? "forward" : "log_it", "/home/ada/train.py", works ? 12 : 31}},
           works ? "" : "time.sleep"});
    }
    timeline.process_lists.push_back({now, {process}});
  }
  const HostDoing doing = *derive_signals(timeline).jobs.at(0).host.doing;

  ASSERT_EQ(doing.stacks.size(), 1U) << "what it does at work was seen at the edges only";
  EXPECT_EQ(doing.stacks.front().part, StepPart::logging);
  EXPECT_NEAR(doing.stacks.front().lost, 0.5, 0.1);
  EXPECT_GT(doing.stacks_in_all, 200);
}

}  // namespace
}  // namespace lockstep
