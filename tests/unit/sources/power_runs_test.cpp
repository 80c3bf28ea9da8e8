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
  std::uint64_t seen = kStartUs;

  const auto runs = equally_spaced_runs({{kStartUs + 20'000, 1}, {kStartUs + 40'000, 2}, {kStartUs + 60'000, 3}}, kStart, seen);

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].milliwatts, ElementsAre(1, 2, 3));
  EXPECT_DOUBLE_EQ(runs[0].sample_ms, 20);
  EXPECT_DOUBLE_EQ(*runs[0].first_ms, 20);
  EXPECT_EQ(seen, kStartUs + 60'000) << "the next read asks for what is younger";
}

TEST(PowerRuns, EndWhereTheDriverSkippedASample) {
  std::uint64_t seen = kStartUs;

  const auto runs = equally_spaced_runs(
      {{kStartUs + 20'000, 1}, {kStartUs + 40'000, 2}, {kStartUs + 100'000, 3}, {kStartUs + 120'000, 4}}, kStart, seen);

  ASSERT_EQ(runs.size(), 2U);
  EXPECT_THAT(runs[1].milliwatts, ElementsAre(3, 4));
  EXPECT_DOUBLE_EQ(*runs[1].first_ms, 100) << "no sample is given another's time";
}

TEST(PowerRuns, SortOutOfOrderAndDoubledSamples) {
  std::uint64_t seen = kStartUs;

  const auto runs = equally_spaced_runs({{kStartUs + 40'000, 2}, {kStartUs + 20'000, 1}, {kStartUs + 40'000, 2}}, kStart, seen);

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_THAT(runs[0].milliwatts, ElementsAre(1, 2));
}

TEST(PowerRuns, OfOneSampleTakeTheSpacingSinceTheLast) {
  std::uint64_t seen = kStartUs + 20'000;

  const auto runs = equally_spaced_runs({{kStartUs + 40'000, 9}}, kStart, seen);

  EXPECT_DOUBLE_EQ(runs.at(0).sample_ms, 20);
}

}  // namespace
}  // namespace lockstep
