#include "sources/nvml/power_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

constexpr std::uint64_t kStartUs = 1'700'000'000'000'000;
constexpr std::chrono::nanoseconds kStart = std::chrono::microseconds(kStartUs);

TEST(PowerRuns, AreOneRunWhenNothingIsMissing) {
  PowerBufferState seen{kStartUs};

  const auto runs = equally_spaced_runs(
      {{kStartUs + 20'000, 1}, {kStartUs + 40'000, 2}, {kStartUs + 60'000, 3}}, kStart, seen);

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].milliwatts, ElementsAre(1, 2, 3));
  EXPECT_DOUBLE_EQ(runs[0].sample_ms, 20);
  EXPECT_DOUBLE_EQ(*runs[0].first_ms, 20);
  EXPECT_EQ(seen.last_seen_us, kStartUs + 60'000) << "the next read asks for what is younger";
}

TEST(PowerRuns, EndWhereTheDriverSkippedASample) {
  PowerBufferState seen{kStartUs};

  std::vector<TimedPower> samples;
  for (std::uint32_t i = 1; i <= 40; ++i)
    if (i < 20 || i > 22) samples.push_back({kStartUs + i * 20'000, i});
  const auto runs = equally_spaced_runs(samples, kStart, seen);

  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].milliwatts.front(), 23U);
  EXPECT_DOUBLE_EQ(*runs[1].first_ms, 23 * 20) << "no sample is given another's time";
}

TEST(PowerRuns, TakeJitterForJitter) {
  // Time stamps of an H200 under load: one sample 12 ms late, the next on time.
  PowerBufferState seen{kStartUs};
  std::vector<TimedPower> samples;
  for (std::uint32_t i = 1; i <= 20; ++i)
    samples.push_back({kStartUs + i * 20'000 + (i == 7 ? 12'000 : i % 3 * 1'000), i});

  const auto runs = equally_spaced_runs(samples, kStart, seen);

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].milliwatts.size(), 20U);
  EXPECT_NEAR(runs[0].sample_ms, 20, 0.2);
}

TEST(PowerRuns, SortOutOfOrderAndDoubledSamples) {
  PowerBufferState seen{kStartUs};

  const auto runs = equally_spaced_runs(
      {{kStartUs + 40'000, 2}, {kStartUs + 20'000, 1}, {kStartUs + 40'000, 2}}, kStart, seen);

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].milliwatts, ElementsAre(1, 2));
}

TEST(PowerRuns, OfAFewSamplesKeepTheSpacingThatManyShowed) {
  PowerBufferState state{kStartUs};
  std::vector<TimedPower> many;
  for (std::uint32_t i = 1; i <= 30; ++i) many.push_back({kStartUs + i * 50'000, i});
  equally_spaced_runs(many, kStart, state);

  const auto runs = equally_spaced_runs({{kStartUs + 1'557'000, 9}}, kStart, state);

  EXPECT_DOUBLE_EQ(runs.at(0).sample_ms, 50)
      << "57 ms since the last one is jitter, not the spacing";
}

}  // namespace
}  // namespace lockstep
