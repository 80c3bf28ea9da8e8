// A process's collectives, and the kernels that they became.
#include "sources/probe/collective_times.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep {
namespace {

lockstep_collective said(std::uint64_t sequence, std::uint64_t called_us,
                         const char* operation = "AllReduce") {
  lockstep_collective record{};
  record.communicator = 77;
  record.sequence = sequence;
  record.called_ns = called_us * 1000;
  record.queued_ns = record.called_ns + 5000;
  record.bytes = 1 << 20;
  record.ranks = 2;
  std::strncpy(record.operation, operation, sizeof record.operation - 1);
  return record;
}

CollectiveKernel kernel(std::uint64_t from_us, std::uint64_t to_us,
                        const char* operation = "AllReduce", int stream = 7) {
  return {from_us * 1000, to_us * 1000, stream,
          std::make_shared<const std::string>(std::string("ncclDevKernel_") + operation +
                                              "_Sum_f32_RING_LL(x)")};
}

std::vector<TimedCollective> all_of(CollectiveTimes& times) {
  return times.take(CollectiveTimes::Until::end, true, 0);
}

TEST(CollectiveTimes, AKernelBelongsToTheCallBeforeIt) {
  CollectiveTimes times;
  ASSERT_TRUE(times.add(said(0, 100)));
  ASSERT_TRUE(times.add(said(1, 200)));
  times.add({kernel(150, 190), kernel(250, 290)});

  const auto taken = all_of(times);

  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].begin_ns, 150'000U);
  EXPECT_EQ(taken[1].end_ns, 290'000U);
}

TEST(CollectiveTimes, CallsOfOneGroupAreOneKernelWithAllTheirBytes) {
  CollectiveTimes times;
  for (std::uint64_t sequence = 0; sequence < 4; ++sequence) {
    lockstep_collective call = said(sequence, 100 + sequence);
    call.group = sequence < 3 ? 5 : 6;
    times.add(call);
  }
  times.add({kernel(150, 190), kernel(250, 290)});

  const auto taken = all_of(times);

  EXPECT_EQ(taken[0].begin_ns, 150'000U);
  EXPECT_EQ(taken[2].begin_ns, 150'000U);
  EXPECT_EQ(taken[0].call.bytes, 3 << 20);
  EXPECT_EQ(taken[2].call.bytes, 0);
  EXPECT_EQ(taken[3].begin_ns, 250'000U) << "the next group's is not taken by the first's";
}

TEST(CollectiveTimes, EachCommunicatorHasItsStream) {
  CollectiveTimes times;
  lockstep_collective other = said(0, 101);
  other.communicator = 88;
  times.add(said(0, 100));
  times.add(other);
  times.add({kernel(150, 160, "AllReduce", 7), kernel(155, 190, "AllReduce", 8)});
  all_of(times);
  // Then the second comes first.
  other = said(1, 300);
  other.communicator = 88;
  times.add(said(1, 299));
  times.add(other);
  times.add({kernel(310, 320, "AllReduce", 8), kernel(330, 340, "AllReduce", 7)});

  const auto taken = all_of(times);

  EXPECT_EQ(taken[0].begin_ns, 330'000U);
  EXPECT_EQ(taken[1].begin_ns, 310'000U);
}

TEST(CollectiveTimes, AKernelOfAnotherOperationIsNotTaken) {
  CollectiveTimes times;
  times.add(said(0, 100, "Broadcast"));
  times.add(said(0, 110, "AllReduce"));
  times.add({kernel(150, 190, "AllReduce")});

  const auto taken = all_of(times);

  EXPECT_EQ(taken[0].begin_ns, 0U);
  EXPECT_EQ(taken[1].begin_ns, 150'000U);
}

TEST(CollectiveTimes, AReduceIsNoAllReduceAndNoReduceScatter) {
  CollectiveTimes times;
  times.add(said(0, 100, "Reduce"));
  times.add({kernel(150, 190, "AllReduce"), kernel(200, 210, "ReduceScatter"),
             kernel(250, 290, "Reduce")});

  EXPECT_EQ(all_of(times)[0].begin_ns, 250'000U);
}

TEST(CollectiveTimes, ARecordThatIsSaidAgainWithTheGpusTimesReplacesTheFirst) {
  CollectiveTimes times;
  times.add(said(0, 100));
  lockstep_collective again = said(0, 100);
  again.device_begin_ns = 120'000;
  again.device_end_ns = 180'000;
  times.add(again);

  const auto taken = all_of(times);

  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].begin_ns, 120'000U);
}

TEST(CollectiveTimes, WaitsAWhileForTheKernel) {
  CollectiveTimes times;
  times.add(said(0, 100));

  EXPECT_TRUE(times.take(CollectiveTimes::Until::settled, true, 200'000).empty());
  EXPECT_EQ(times.take(CollectiveTimes::Until::settled, true, 5'000'000'000).size(), 1U);
}

TEST(CollectiveTimes, DamageIsRefused) {
  CollectiveTimes times;
  lockstep_collective damaged = said(0, 100);
  damaged.queued_ns = 1;
  EXPECT_FALSE(times.add(damaged));
  damaged = said(0, 0);
  EXPECT_FALSE(times.add(damaged));
}

}  // namespace
}  // namespace lockstep
