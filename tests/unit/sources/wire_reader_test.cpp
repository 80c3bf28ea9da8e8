#include "sources/probe/probe_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <memory>
#include <utility>
#include <vector>

#include "support/ring_writer.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

constexpr int kPid = 4242;

using testing::RingWriter;

// The steps of what a reader has now.
std::vector<std::pair<std::uint64_t, StepMark>> steps_of(ProbeReader& reader) {
  std::vector<std::pair<std::uint64_t, StepMark>> steps;
  for (ProbeRecord& record : reader.read())
    if (auto* const step = std::get_if<StepMark>(&record.content))
      steps.emplace_back(record.end_ns, std::move(*step));
  return steps;
}

TEST(WireReader, ReadsWhatWasWrittenSinceTheLastTime) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid);
  ProbeReader reader(folder.path());
  writer.step(0);
  reader.follow({kPid});

  const auto first = steps_of(reader);
  writer.step(1);
  const auto second = steps_of(reader);

  ASSERT_EQ(first.size(), 1U);
  EXPECT_DOUBLE_EQ(first[0].second.duration_ms, 80);
  EXPECT_EQ(first[0].second.spans_ms[LOCKSTEP_SPAN_FORWARD], 30.0);
  EXPECT_EQ(first[0].second.spans_ms[LOCKSTEP_SPAN_OPTIMIZER], 0.0) << "measured, and nothing";
  EXPECT_EQ(first[0].second.spans_ms[LOCKSTEP_SPAN_COPY], std::nullopt) << "not measured";
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].second.index, 1);
  EXPECT_TRUE(steps_of(reader).empty());
}

TEST(WireReader, CountsWhatWasOverwrittenBeforeItWasRead) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid);
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  const int written = LOCKSTEP_WIRE_SLOTS * 2 + 100;
  for (int i = 0; i < written; ++i) writer.step(i);

  const auto steps = steps_of(reader);

  // The oldest slot may be the one that the writer is about to use.
  ASSERT_EQ(steps.size(), LOCKSTEP_WIRE_SLOTS - 1U);
  EXPECT_EQ(steps.back().second.index, written - 1);
  EXPECT_EQ(reader.dropped() + steps.size(), static_cast<std::uint64_t>(written));
}

TEST(WireReader, ReadsAcrossTheRingsEnd) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid);
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  std::int64_t index = 0;
  std::size_t seen = 0;

  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 100; ++i) writer.step(index++);
    seen += steps_of(reader).size();
  }

  EXPECT_EQ(seen, 3000U);
  EXPECT_EQ(reader.dropped(), 0U);
}

TEST(WireReader, PutsTheStepsOfSeveralRanksInOrder) {
  const testing::TemporaryFolder folder;
  RingWriter one(folder.path(), 1);
  RingWriter two(folder.path(), 2);
  ProbeReader reader(folder.path());
  reader.follow({1, 2});
  for (int i = 0; i < 3; ++i) {
    two.step(i, 1);
    one.step(i, 0);
  }

  const auto steps = steps_of(reader);

  ASSERT_EQ(steps.size(), 6U);
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_LE(steps[i - 1].first, steps[i].first);
}

TEST(WireReader, SkipsKindsItDoesNotKnow) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid);
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  const char newer[16] = {};
  lockstep_ring_write(&writer.header(), 99, newer, sizeof newer);
  writer.step(5);

  const auto steps = steps_of(reader);

  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(reader.dropped(), 0U);
}

TEST(WireReader, LeavesFilesThatAreNoRing) {
  const testing::TemporaryFolder folder;
  folder.write("wire-1.ring", "short");
  folder.write("wire-2.ring", std::string(lockstep_wire_bytes(LOCKSTEP_WIRE_SLOTS), 'x'));
  {
    RingWriter other_version(folder.path(), 3);
    other_version.header().version = 9;
  }
  {
    RingWriter other_pid(folder.path(), 4);
    other_pid.header().pid = 5;
  }
  std::filesystem::create_directory(folder / "wire-6.ring");
  ProbeReader reader(folder.path());

  reader.follow({1, 2, 3, 4, 5, 6, 7});

  EXPECT_FALSE(reader.any());
  EXPECT_TRUE(steps_of(reader).empty());
}

TEST(WireReader, ForgetsProcessesThatAreGone) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid);
  ProbeReader reader(folder.path());
  reader.follow({kPid});

  reader.follow({});

  EXPECT_FALSE(reader.any());
}

TEST(WireReader, SurvivesAFileThatShrinks) {
  const testing::TemporaryFolder folder;
  auto writer = std::make_unique<RingWriter>(folder.path(), kPid);
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  writer->step(0);
  writer.reset();
  std::filesystem::resize_file(folder / "wire-4242.ring", 300);

  EXPECT_TRUE(steps_of(reader).empty());
}

TEST(WireReader, WaitsALookForAWriterWithoutBarriers) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid);
  writer.header().flags = LOCKSTEP_WIRE_UNORDERED;
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  writer.step(0);

  const auto first = steps_of(reader);
  const auto second = steps_of(reader);

  EXPECT_TRUE(first.empty()) << "counted now, taken at the next look";
  EXPECT_EQ(second.size(), 1U);
}

TEST(WireReader, WaitsForARecordThatAThreadHasClaimedAndNotFilled) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid, 1024, "host-");
  writer.header().role = LOCKSTEP_ROLE_HOST;
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  lockstep_step step{};
  step.duration_ns = 1;
  lockstep_ring_write_shared(&writer.header(), LOCKSTEP_RECORD_STEP, &step, sizeof step);
  writer.header().written += 1;  // claimed
  lockstep_ring_write_shared(&writer.header(), LOCKSTEP_RECORD_STEP, &step, sizeof step);

  const auto before = steps_of(reader).size();
  lockstep_ring_fill(lockstep_ring_slot(&writer.header(), 1), 1, LOCKSTEP_RECORD_STEP, &step,
                     sizeof step);
  const auto after = steps_of(reader).size();

  EXPECT_EQ(before, 1U);
  EXPECT_EQ(after, 2U);
  EXPECT_EQ(reader.dropped(), 0U);
}

TEST(WireReader, GivesUpOnARecordThatIsNeverFilled) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid, 1024, "host-");
  writer.header().role = LOCKSTEP_ROLE_HOST;
  ProbeReader reader(folder.path());
  reader.follow({kPid});
  lockstep_step step{};
  step.duration_ns = 1;
  writer.header().written += 1;  // by a thread that was ended
  lockstep_ring_write_shared(&writer.header(), LOCKSTEP_RECORD_STEP, &step, sizeof step);

  std::size_t seen = 0;
  for (int look = 0; look < 5; ++look) seen += steps_of(reader).size();

  EXPECT_EQ(seen, 1U);
  EXPECT_EQ(reader.dropped(), 1U);
}

TEST(ProbeReader, MakesStepsOfSpansAndFactsOfWords) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid, LOCKSTEP_WIRE_PROBE_SLOTS);
  writer.header().rank_plus_1 = 4;
  writer.header().world_size = 8;
  ProbeReader reader(folder.path());
  reader.follow_all();
  writer.fact("loader id=7 workers=2 pin=1 cut");
  writer.span(
      testing::span_at(LOCKSTEP_SPAN_OPTIMIZER, 0, 10, "SGD.step", 5, LOCKSTEP_FLAG_STEP_END));
  writer.span(testing::span_at(LOCKSTEP_SPAN_FORWARD, 20, 60, "forward", 6));
  writer.span(
      testing::span_at(LOCKSTEP_SPAN_OPTIMIZER, 90, 110, "SGD.step", 5, LOCKSTEP_FLAG_STEP_END));

  const auto records = reader.read_to_the_end();

  const StepMark* step = nullptr;
  const ProbeFact* fact = nullptr;
  for (const ProbeRecord& record : records) {
    if (const auto* const mark = std::get_if<StepMark>(&record.content)) step = mark;
    const auto* const said = std::get_if<ProbeFact>(&record.content);
    if (said != nullptr && said->name != "heard") fact = said;
  }
  ASSERT_EQ(records.size(), 3U) << "with the fact that the probe was heard";
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->rank, 3);
  EXPECT_DOUBLE_EQ(step->duration_ms, 0.1);
  ASSERT_NE(fact, nullptr);
  EXPECT_EQ(fact->name, "loader");
  EXPECT_EQ(fact->values.at("workers"), "2");
  EXPECT_EQ(fact->values.at("world_size"), "8");
  EXPECT_FALSE(fact->values.contains("cut"));
}

TEST(ProbeReader, TakesHiddenCollectivesFromDdpsOwnRecords) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid, LOCKSTEP_WIRE_PROBE_SLOTS);
  ProbeReader reader(folder.path());
  reader.follow_all();
  writer.fact("ddp backend=nccl overlap_ns=30000");
  writer.span(
      testing::span_at(LOCKSTEP_SPAN_OPTIMIZER, 0, 10, "SGD.step", 5, LOCKSTEP_FLAG_STEP_END));
  for (const std::uint64_t at : {20U, 120U}) {
    writer.span(testing::span_at(LOCKSTEP_SPAN_BACKWARD, at, at + 40, "backward", 6,
                                 at == 20 ? LOCKSTEP_FLAG_SYNCS : 0));
    writer.span(testing::span_at(LOCKSTEP_SPAN_OPTIMIZER, at + 60, at + 70, "SGD.step", 5,
                                 LOCKSTEP_FLAG_STEP_END));
  }

  std::vector<std::optional<double>> hidden;
  for (const ProbeRecord& record : reader.read_to_the_end())
    if (const auto* const step = std::get_if<StepMark>(&record.content))
      hidden.push_back(step->spans_ms[LOCKSTEP_SPAN_COLLECTIVE_HIDDEN]);

  ASSERT_EQ(hidden.size(), 2U);
  EXPECT_DOUBLE_EQ(hidden[0].value_or(0), 0.03);
  EXPECT_FALSE(hidden[1]) << "a step without a sync hides none";
}

TEST(ProbeReader, CountsWhatTheProbeItselfLost) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid, LOCKSTEP_WIRE_PROBE_SLOTS);
  ProbeReader reader(folder.path());
  reader.follow_all();
  writer.fact("lost records=41");
  writer.fact("lost records=many");

  const auto records = reader.read_to_the_end();

  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(std::get<ProbeFact>(records[0].content).name, "heard");
  EXPECT_EQ(std::get<ProbeFact>(records[0].content).values.at("probe"), "python");
  EXPECT_EQ(reader.dropped(), 41U);
}

TEST(ProbeReader, TellsKernelsWithoutTimesFromLostRecords) {
  const testing::TemporaryFolder folder;
  RingWriter writer(folder.path(), kPid, LOCKSTEP_WIRE_PROBE_SLOTS, "cuda-");
  writer.header().role = LOCKSTEP_ROLE_CUDA;
  ProbeReader reader(folder.path());
  reader.follow_all();
  writer.fact("lost records=3");

  const auto records = reader.read_to_the_end();

  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(std::get<ProbeFact>(records[0].content).values.at("probe"), "cuda");
  EXPECT_EQ(reader.without_times(), 3U);
  EXPECT_EQ(reader.dropped(), 0U);
}

TEST(ProbeReader, SumsUpWhatAWorkerFetchesForItsRank) {
  const testing::TemporaryFolder folder;
  RingWriter rank(folder.path(), 10, LOCKSTEP_WIRE_PROBE_SLOTS);
  rank.header().rank_plus_1 = 2;
  rank.fact("seed torch=1");
  RingWriter worker(folder.path(), 11, LOCKSTEP_WIRE_PROBE_SLOTS);
  worker.header().role = LOCKSTEP_ROLE_WORKER;
  worker.header().parent_pid = 10;
  for (int i = 0; i < 3; ++i)
    worker.span(testing::span_at(LOCKSTEP_SPAN_DATA_WAIT, 0, 2000, "fetch a batch", 0,
                                 LOCKSTEP_FLAG_IN_WORKER));
  ProbeReader reader(folder.path());
  reader.follow_all();

  const auto records = reader.read();

  const auto fetched = std::ranges::find_if(records, [](const ProbeRecord& record) {
    return std::holds_alternative<ProbeFact>(record.content) &&
           std::get<ProbeFact>(record.content).name == "fetched";
  });
  ASSERT_NE(fetched, records.end());
  EXPECT_EQ(std::get<ProbeFact>(fetched->content).values.at("batches"), "3");
  EXPECT_EQ(std::get<ProbeFact>(fetched->content).values.at("total_ms"), "6.000000");
  EXPECT_EQ(std::get<ProbeFact>(fetched->content).rank, 1);
}

}  // namespace
}  // namespace lockstep
