#include "sources/probe/wire_reader.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "probes/wire/ring.h"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

constexpr int kPid = 4242;

// A process that writes its steps, as the trainer does.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& folder, int pid = kPid) {
    const std::string path = (folder / ("wire-" + std::to_string(pid) + ".ring")).string();
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::ftruncate(file, sizeof(lockstep_wire)), 0);
    wire_ = static_cast<lockstep_wire*>(::mmap(nullptr, sizeof(lockstep_wire), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
    wire_->header = {};
    wire_->header.magic = LOCKSTEP_WIRE_MAGIC;
    wire_->header.version = LOCKSTEP_WIRE_VERSION;
    wire_->header.header_bytes = sizeof(lockstep_wire_header);
    wire_->header.record_bytes = sizeof(lockstep_record);
    wire_->header.slots = LOCKSTEP_WIRE_SLOTS;
    wire_->header.pid = pid;
  }
  ~Writer() { ::munmap(wire_, sizeof(lockstep_wire)); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void step(std::int64_t index, int rank = 0) {
    lockstep_step step{};
    step.index = index;
    step.rank = rank;
    step.end_ns = static_cast<std::uint64_t>(1'000'000 * (index + 1));
    step.duration_ns = 80'000'000;
    step.spans_known = 1U << LOCKSTEP_SPAN_FORWARD | 1U << LOCKSTEP_SPAN_OPTIMIZER;
    step.span_ns[LOCKSTEP_SPAN_FORWARD] = 30'000'000;
    lockstep_ring_write(wire_, LOCKSTEP_RECORD_STEP, &step, sizeof step);
  }
  lockstep_wire& wire() { return *wire_; }

 private:
  lockstep_wire* wire_;
};

TEST(WireReader, ReadsWhatWasWrittenSinceTheLastTime) {
  const testing::TemporaryFolder folder;
  Writer writer(folder.path());
  WireReader reader(folder.path());
  writer.step(0);
  reader.follow({kPid});

  const auto first = reader.read();
  writer.step(1);
  const auto second = reader.read();

  ASSERT_EQ(first.size(), 1U);
  EXPECT_DOUBLE_EQ(first[0].step.duration_ms, 80);
  EXPECT_EQ(first[0].step.spans_ms[LOCKSTEP_SPAN_FORWARD], 30.0);
  EXPECT_EQ(first[0].step.spans_ms[LOCKSTEP_SPAN_OPTIMIZER], 0.0) << "measured, and nothing";
  EXPECT_EQ(first[0].step.spans_ms[LOCKSTEP_SPAN_COPY], std::nullopt) << "not measured";
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].step.index, 1);
  EXPECT_TRUE(reader.read().empty());
}

TEST(WireReader, CountsWhatWasOverwrittenBeforeItWasRead) {
  const testing::TemporaryFolder folder;
  Writer writer(folder.path());
  WireReader reader(folder.path());
  reader.follow({kPid});
  const int written = LOCKSTEP_WIRE_SLOTS * 2 + 100;
  for (int i = 0; i < written; ++i) writer.step(i);

  const auto steps = reader.read();

  // The oldest slot may be the one that the writer is about to use.
  ASSERT_EQ(steps.size(), LOCKSTEP_WIRE_SLOTS - 1U);
  EXPECT_EQ(steps.back().step.index, written - 1);
  EXPECT_EQ(reader.dropped() + steps.size(), static_cast<std::uint64_t>(written));
}

TEST(WireReader, ReadsAcrossTheRingsEnd) {
  const testing::TemporaryFolder folder;
  Writer writer(folder.path());
  WireReader reader(folder.path());
  reader.follow({kPid});
  std::int64_t index = 0;
  std::size_t seen = 0;

  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 100; ++i) writer.step(index++);
    seen += reader.read().size();
  }

  EXPECT_EQ(seen, 3000U);
  EXPECT_EQ(reader.dropped(), 0U);
}

TEST(WireReader, PutsTheStepsOfSeveralRanksInOrder) {
  const testing::TemporaryFolder folder;
  Writer one(folder.path(), 1);
  Writer two(folder.path(), 2);
  WireReader reader(folder.path());
  reader.follow({1, 2});
  for (int i = 0; i < 3; ++i) {
    two.step(i, 1);
    one.step(i, 0);
  }

  const auto steps = reader.read();

  ASSERT_EQ(steps.size(), 6U);
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_LE(steps[i - 1].end_ns, steps[i].end_ns);
}

TEST(WireReader, SkipsKindsItDoesNotKnow) {
  const testing::TemporaryFolder folder;
  Writer writer(folder.path());
  WireReader reader(folder.path());
  reader.follow({kPid});
  const char newer[16] = {};
  lockstep_ring_write(&writer.wire(), 99, newer, sizeof newer);
  writer.step(5);

  const auto steps = reader.read();

  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(reader.dropped(), 0U);
}

TEST(WireReader, LeavesFilesThatAreNoRing) {
  const testing::TemporaryFolder folder;
  folder.write("wire-1.ring", "short");
  folder.write("wire-2.ring", std::string(sizeof(lockstep_wire), 'x'));
  { Writer other_version(folder.path(), 3); other_version.wire().header.version = 9; }
  { Writer other_pid(folder.path(), 4); other_pid.wire().header.pid = 5; }
  std::filesystem::create_directory(folder / "wire-6.ring");
  WireReader reader(folder.path());

  reader.follow({1, 2, 3, 4, 5, 6, 7});

  EXPECT_FALSE(reader.any());
  EXPECT_TRUE(reader.read().empty());
}

TEST(WireReader, ForgetsProcessesThatAreGone) {
  const testing::TemporaryFolder folder;
  Writer writer(folder.path());
  WireReader reader(folder.path());
  reader.follow({kPid});

  reader.follow({});

  EXPECT_FALSE(reader.any());
}

TEST(WireReader, SurvivesAFileThatShrinks) {
  const testing::TemporaryFolder folder;
  auto writer = std::make_unique<Writer>(folder.path());
  WireReader reader(folder.path());
  reader.follow({kPid});
  writer->step(0);
  writer.reset();
  std::filesystem::resize_file(folder / "wire-4242.ring", 300);

  EXPECT_TRUE(reader.read().empty());
}

}  // namespace
}  // namespace lockstep
