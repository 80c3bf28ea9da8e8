// H601 to H605: the GPUs themselves.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// All ranks receive at a high rate, and one GPU never gets near it.
Signals one_slow_link(double own_bytes_s, double others_bytes_s) {
  Signals signals = healthy_ranks(4);
  for (GpuSignals& gpu : signals.gpus) gpu.pcie_rx_peak_bytes_s = others_bytes_s;
  signals.gpus[2].pcie_rx_peak_bytes_s = own_bytes_s;
  return signals;
}

Signals with_event(EventKind kind, std::optional<int> gpu, const std::string& detail) {
  Signals signals = healthy_ranks(4);
  signals.events = {{12'000, {kind, gpu, detail}}};
  return signals;
}

TEST(PowerCapped, IsFoundWhereTheCapCostsClock) {
  Signals signals = healthy_ranks(2);
  limit_clock(signals, 1, ClockLimit::sw_power_cap, 0.4, 1300);

  const auto findings = found_by(find_power_capped, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::power_capped, 0.1, 0.2));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(1));
}

TEST(PowerCapped, IsFoundWhereTheLimitIsLowerThanThatOfItsTwins) {
  Signals signals = healthy_ranks(4);
  signals.gpus[3].info.power_limit_mw = 500'000;
  limit_clock(signals, 3, ClockLimit::sw_power_cap, 0.95, 1790);

  const auto findings = found_by(find_power_capped, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::power_capped, 0.02, 0.2));
  EXPECT_THAT(findings.front().gpus, ElementsAre(3));
}

TEST(PowerCapped, IsFoundWhereTheLimitIsLowerThanTheMakers) {
  // An H200 at 300 of 700 W: 610 of 1980 MHz, and 253 instead of 572 thousand tokens/s (0.56 lost).
  Signals signals = alone(1);
  signals.gpus[0].info.power_limit_mw = 300'000;
  signals.gpus[0].info.power_limit_default_mw = 700'000;
  limit_clock(signals, 0, ClockLimit::sw_power_cap, 1, 610);

  EXPECT_TRUE(is_one(found_by(find_power_capped, signals), FindingCode::power_capped, 0.5, 0.65));
}

TEST(PowerCapped, CostsWhatTheHighestClockTellsWhereItWasNeverFree) {
  Signals signals = alone(1);
  GpuSignals& gpu = signals.gpus[0];
  gpu.info.power_limit_mw = 490'000;
  gpu.info.power_limit_default_mw = 700'000;
  limit_clock(signals, 0, ClockLimit::sw_power_cap, 1, 1426);
  gpu.clock_highest_mhz = 1426;
  gpu.clock_while_free_mhz.reset();
  EXPECT_TRUE(is_one(found_by(find_power_capped, signals), FindingCode::power_capped, 0.03, 0.031))
      << "nothing to compare with";

  gpu.info.sm_clock_max_mhz = 1980;
  EXPECT_TRUE(is_one(found_by(find_power_capped, signals), FindingCode::power_capped, 0.09, 0.11));
}

TEST(PowerCapped, IsNotSaidAtTheMakersLimit) {
  // The same H200 with nothing lowered: always at its 700 W, 1596 of 1980 MHz.
  Signals signals = alone(1);
  signals.gpus[0].info.power_limit_mw = signals.gpus[0].info.power_limit_default_mw = 700'000;
  signals.gpus[0].clock_highest_mhz = 1980;
  signals.gpus[0].clock_while_free_mhz.reset();
  limit_clock(signals, 0, ClockLimit::sw_power_cap, 1, 1596);

  EXPECT_THAT(found_by(find_power_capped, signals), IsEmpty());

  signals.gpus[0].info.power_limit_default_mw.reset();  // as in a log that does not tell
  EXPECT_THAT(found_by(find_power_capped, signals), IsEmpty());

  limit_clock(signals, 0, ClockLimit::sw_power_cap, 1, 800);
  EXPECT_TRUE(is_one(found_by(find_power_capped, signals), FindingCode::power_capped, 0.4, 0.6));
}

TEST(PowerCapped, IsFoundWhereClocksAreLocked) {
  // nvidia-smi -lgc 900,900 on an H200: no flag, and 330 instead of 572 thousand tokens/s (0.42
  // lost).
  Signals signals = alone(1);
  signals.gpus[0].info.sm_clock_max_mhz = 1980;
  signals.gpus[0].clock_mhz = signals.gpus[0].clock_highest_mhz =
      signals.gpus[0].clock_while_free_mhz = 900;

  EXPECT_TRUE(is_one(found_by(find_power_capped, signals), FindingCode::power_capped, 0.35, 0.5));

  signals.gpus[0].clock_highest_mhz = 1980;  // it may go higher, and does
  EXPECT_THAT(found_by(find_power_capped, signals), IsEmpty());
  // an applications clock somewhat below the highest
  signals.gpus[0].clock_mhz = signals.gpus[0].clock_highest_mhz = 1600;
  EXPECT_THAT(found_by(find_power_capped, signals), IsEmpty());
}

TEST(PowerCapped, IsCriticalWhereTheHardwareBrakes) {
  Signals signals = healthy_ranks(2);
  limit_clock(signals, 0, ClockLimit::hw_power_brake_slowdown, 0.1, 900);

  const auto findings = found_by(find_power_capped, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::power_capped, 0.03, 0.2));
  EXPECT_EQ(findings.front().severity, Severity::critical);
}

TEST(PowerCapped, IsNotSaidOfAHealthyGpuAtItsLimit) {
  Signals signals = healthy_ranks(2);
  for (const int gpu : {0, 1}) limit_clock(signals, gpu, ClockLimit::sw_power_cap, 0.95, 1790);

  EXPECT_THAT(found_by(find_power_capped, signals), IsEmpty())
      << "0.9 of the free clock is as it should be";
}

TEST(PowerCapped, IsNotSaidOfAShortCapOrOfHeat) {
  Signals seldom = healthy_ranks(2);
  limit_clock(seldom, 0, ClockLimit::sw_power_cap, 0.25, 1300);
  Signals hot = healthy_ranks(2);
  limit_clock(hot, 0, ClockLimit::hw_thermal_slowdown, 0.9, 900);

  EXPECT_THAT(found_by(find_power_capped, seldom), IsEmpty());
  EXPECT_THAT(found_by(find_power_capped, hot), IsEmpty());
}

TEST(PowerCapped, IsSuspectedOnlyWhereThereIsNothingToCompareWith) {
  Signals signals = alone(1);
  limit_clock(signals, 0, ClockLimit::sw_power_cap, 0.95, 1500);
  signals.gpus[0].clock_mhz = signals.gpus[0].clock_highest_mhz = 1500;
  signals.gpus[0].clock_while_free_mhz.reset();

  for (const Finding& finding : found_by(find_power_capped, signals))
    EXPECT_FALSE(is_stood_behind(finding));
}

TEST(PowerCapped, IsNotSaidWhereLimitsWereNotRead) {
  Signals signals = healthy_ranks(2);
  limit_clock(signals, 1, ClockLimit::sw_power_cap, 0.9, 1300);
  signals.gpus[1].limit_shares.reset();

  EXPECT_THAT(found_by(find_power_capped, signals), IsEmpty());
}

TEST(ThermalThrottle, IsFoundWhereTheDriverSaysSo) {
  for (const ClockLimit limit : {ClockLimit::sw_thermal_slowdown, ClockLimit::hw_thermal_slowdown,
                                 ClockLimit::hw_slowdown}) {
    Signals signals = healthy_ranks(4);
    limit_clock(signals, 2, limit, 0.4, 1100);

    const auto findings = found_by(find_thermal_throttle, signals);

    ASSERT_TRUE(is_one(findings, FindingCode::thermal_throttle, 0.1, 0.2))
        << static_cast<int>(limit);
    EXPECT_THAT(findings.front().gpus, ElementsAre(2));
    EXPECT_EQ(findings.front().severity, Severity::critical);
  }
}

TEST(ThermalThrottle, IsFoundAtSixPercentOfTheTime) {
  Signals signals = healthy_ranks(4);
  limit_clock(signals, 2, ClockLimit::sw_thermal_slowdown, 0.06, 1100);

  EXPECT_TRUE(
      is_one(found_by(find_thermal_throttle, signals), FindingCode::thermal_throttle, 0.02, 0.05));
}

TEST(ThermalThrottle, IsNotSaidOfOneReading) {
  Signals signals = healthy_ranks(2);
  limit_clock(signals, 0, ClockLimit::sw_thermal_slowdown, 1.0 / 19, 1600);
  signals.gpus[0].limit_looks = 19;

  EXPECT_THAT(found_by(find_thermal_throttle, signals), IsEmpty());
}

TEST(ThermalThrottle, AssumesACutWhereClocksWereNotRead) {
  Signals signals = healthy_ranks(2);
  limit_clock(signals, 0, ClockLimit::hw_thermal_slowdown, 0.5, 1000);
  signals.gpus[0].clock_while_limited_mhz.reset();

  EXPECT_TRUE(
      is_one(found_by(find_thermal_throttle, signals), FindingCode::thermal_throttle, 0.05, 0.3));
}

TEST(ThermalThrottle, OfAGpuThatIsHotAllAlongIsMeasuredByItsNeighbour) {
  Signals signals = healthy_ranks(2);
  limit_clock(signals, 1, ClockLimit::hw_thermal_slowdown, 1.0, 1400);
  signals.gpus[1].clock_while_free_mhz.reset();
  signals.gpus[1].clock_highest_mhz = 1400;
  signals.gpus[0].clock_while_free_mhz = 1980;

  EXPECT_TRUE(
      is_one(found_by(find_thermal_throttle, signals), FindingCode::thermal_throttle, 0.27, 0.31));

  signals.gpus[0].info.name = "another model";  // whose clock says nothing of this one
  EXPECT_TRUE(
      is_one(found_by(find_thermal_throttle, signals), FindingCode::thermal_throttle, 0.01, 0.03));
}

TEST(ThermalThrottle, IsNotSaidInPassingOfACapOrOfUnknownLimits) {
  Signals in_passing = healthy_ranks(2);
  limit_clock(in_passing, 0, ClockLimit::hw_thermal_slowdown, 0.03, 1100);
  Signals capped = healthy_ranks(2);
  limit_clock(capped, 0, ClockLimit::sw_power_cap, 0.9, 1100);
  Signals unknown = healthy_ranks(2);
  limit_clock(unknown, 0, ClockLimit::hw_thermal_slowdown, 0.9, 1100);
  unknown.gpus[0].limit_shares.reset();

  EXPECT_THAT(found_by(find_thermal_throttle, in_passing), IsEmpty());
  EXPECT_THAT(found_by(find_thermal_throttle, capped), IsEmpty());
  EXPECT_THAT(found_by(find_thermal_throttle, unknown), IsEmpty());
}

TEST(PcieDegraded, IsFoundWhereOneLinkNeverReachesHalfOfTheOthers) {
  const auto findings = found_by(find_pcie_degraded, one_slow_link(2e9, 4e9));

  ASSERT_TRUE(is_one(findings, FindingCode::pcie_degraded, 0.02, 0.3));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(2));
}

TEST(PcieDegraded, IsNotSaidJustOverHalfOrWhereNobodyCopiesMuch) {
  EXPECT_THAT(found_by(find_pcie_degraded, one_slow_link(14e9, 24e9)), IsEmpty());
  EXPECT_THAT(found_by(find_pcie_degraded, one_slow_link(0.5e9, 2.5e9)), IsEmpty());
}

TEST(PcieDegraded, IsNotSaidOfSeparateJobsOrWithoutCounters) {
  Signals separate = copies_by_hand(2);
  separate.gpus[0].pcie_rx_peak_bytes_s = 24e9;
  separate.gpus[1].pcie_rx_peak_bytes_s = 1e9;
  Signals own_unknown = one_slow_link(6e9, 24e9);
  own_unknown.gpus[2].pcie_rx_peak_bytes_s.reset();

  EXPECT_THAT(found_by(find_pcie_degraded, separate), IsEmpty()) << "other jobs copy other amounts";
  EXPECT_THAT(found_by(find_pcie_degraded, own_unknown), IsEmpty());
}

TEST(EccOrXid, NamesTheGpuAndTheNumber) {
  const auto findings = found_by(find_ecc_or_xid, with_event("xid", 1, "79"));

  ASSERT_TRUE(is_one(findings, FindingCode::ecc_or_xid, 0, 1));
  EXPECT_TRUE(is_stood_behind(findings.front())) << "a fault, whatever it costs";
  EXPECT_THAT(findings.front().gpus, ElementsAre(1));
  EXPECT_EQ(findings.front().severity, Severity::critical);
  EXPECT_EQ(evidence_of(findings.front(), "xid"), 79);
}

TEST(EccOrXid, IsAWarningWhereTheProgramIsToBlame) {
  const auto findings = found_by(find_ecc_or_xid, with_event("xid", 1, "43"));

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().severity, Severity::warning);
}

TEST(EccOrXid, NamesNoGpuWhereTheEventHasNone) {
  const auto findings = found_by(find_ecc_or_xid, with_event("xid", std::nullopt, "79"));

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings.front().gpus, IsEmpty()) << "not GPU 0";
}

TEST(EccOrXid, IsNotSaidOfOtherEvents) {
  EXPECT_THAT(found_by(find_ecc_or_xid, with_event("lost", 1, "")), IsEmpty());
  EXPECT_THAT(found_by(find_ecc_or_xid, with_event("slow_call", 1, "79 ms")), IsEmpty());
  EXPECT_THAT(found_by(find_ecc_or_xid, healthy_ranks(4)), IsEmpty());
}

TEST(GpuLost, IsSaidOnceOfAGpuThatFellOffTheBus) {
  Signals signals = with_event("lost", 3, "");
  signals.gpus[3].vanished = true;

  const auto findings = found_by(find_gpu_lost, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::gpu_lost, 0.25, 0.25))
      << "the event and the end of its readings are one fault";
  EXPECT_THAT(findings.front().gpus, ElementsAre(3));
  EXPECT_EQ(findings.front().severity, Severity::critical);
}

TEST(GpuLost, IsSaidOfReadingsThatEndBeforeTheOthers) {
  Signals signals = healthy_ranks(2);
  signals.gpus[1].vanished = true;

  const auto findings = found_by(find_gpu_lost, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::gpu_lost, 0.5, 0.5));
  EXPECT_THAT(findings.front().gpus, ElementsAre(1));
}

TEST(GpuLost, IsSaidOfAGpuThatCameBackForTheTimeItWasAway) {
  Signals signals = with_event("lost", 3, "");
  signals.duration_s = 30;
  signals.events.push_back({15'000, {"recovered", 3, ""}});

  const auto findings = found_by(find_gpu_lost, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::gpu_lost, 0.02, 0.03))
      << "3 of 30 s of one GPU of four";
  EXPECT_TRUE(is_stood_behind(findings.front())) << "what ran on it is gone";
  EXPECT_EQ(evidence_of(findings.front(), "back_at"), 15);
}

TEST(GpuLost, IsSaidOfTheXidThatMeansIt) {
  EXPECT_TRUE(is_one(found_by(find_gpu_lost, with_event("xid", 2, "79")), FindingCode::gpu_lost,
                     0.25, 0.25));
  EXPECT_THAT(found_by(find_gpu_lost, with_event("xid", 2, "31")), IsEmpty())
      << "a program's bad address";
}

TEST(GpuLost, IsNotSaidOfASliceTakenAway) {
  Signals slice = healthy_ranks(2);
  slice.gpus[1].info.mig = MigSlice{0, 1};
  slice.gpus[1].vanished = true;

  EXPECT_THAT(found_by(find_gpu_lost, slice), IsEmpty());
  EXPECT_THAT(found_by(find_gpu_lost, with_event("lost", std::nullopt, "")), IsEmpty())
      << "nobody says which";
}

}  // namespace
}  // namespace lockstep
