// The CUDA and NCCL probes within programs that call them as the driver and NCCL do, read as
// lockstep reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "sources/probe/probe_reader.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

fs::path probe(const char* name) {
  return fs::path(testing::lockstep_program()).parent_path().parent_path() / "lib" / "lockstep" /
         name;
}

struct ProbedRun {
  int code = -1;
  std::vector<CollectiveCall> calls;
  std::vector<ProbeFact> facts;
  std::uint64_t dropped = 0;
  bool heard_cuda = false;
};

int run_program(const std::string& program, std::vector<std::string> words,
                std::vector<std::string> environment) {
  words.insert(words.begin(), testing::test_tool(program));
  environment.push_back("PATH=/usr/bin:/bin");
  auto child = Subprocess::start(words, ChildOutput::untouched, -1, environment);
  if (!child) return -1;
  return child->wait().exit_code;
}

ProbedRun read_rings(const fs::path& folder, int code) {
  ProbedRun run;
  run.code = code;
  ProbeReader reader(folder);
  reader.follow_all();
  for (ProbeRecord& record : reader.read_to_the_end()) {
    if (auto* call = std::get_if<CollectiveCall>(&record.content))
      run.calls.push_back(std::move(*call));
    else if (auto* fact = std::get_if<ProbeFact>(&record.content))
      run.facts.push_back(std::move(*fact));
  }
  run.dropped = reader.dropped();
  run.heard_cuda = reader.heard(LOCKSTEP_ROLE_CUDA);
  return run;
}

class NcclVersions : public ::testing::TestWithParam<int> {};
TEST_P(NcclVersions, TellEachCollective) {
  const int version = GetParam();
  const TemporaryFolder folder;
  const int code = run_program(
      "nccl_program", {probe("liblockstep_nccl_probe.so").string(), std::to_string(version), "50"},
      {"LOCKSTEP_PROBE=nccl", "LOCKSTEP_PROBE_FOLDER=" + folder.path().string(), "RANK=1",
       "WORLD_SIZE=2"});

  const ProbedRun run = read_rings(folder.path(), code);

  ASSERT_EQ(run.code, 0);
  EXPECT_EQ(run.dropped, 0U);
  ASSERT_EQ(run.calls.size(), 51U) << "and the send";
  const CollectiveCall& call = run.calls[7];
  EXPECT_EQ(call.operation, "AllReduce");
  EXPECT_EQ(call.algorithm, "RING");
  EXPECT_EQ(call.protocol, "SIMPLE");
  EXPECT_EQ(call.communicator, 0xABCDU);
  EXPECT_EQ(call.sequence, 7U);
  EXPECT_EQ(call.place, 1);
  EXPECT_EQ(call.rank, 1);
  EXPECT_EQ(call.channels, 2);
  EXPECT_EQ(call.size, version >= 4 ? 2 : 0) << "older NCCLs do not say";
  EXPECT_NEAR(call.bytes, 4 << 20, 1);
  EXPECT_GE(call.queued_ms, call.called_ms);
  EXPECT_TRUE(run.calls.back().to_one_peer);
  EXPECT_EQ(run.calls.back().operation, "Send");
}
INSTANTIATE_TEST_SUITE_P(All, NcclVersions, ::testing::Values(1, 2, 3, 4, 5, 6));

TEST(NcclProbe, PutsTheGpusTimesOnTheHostsClock) {
  const TemporaryFolder folder;
  const int code =
      run_program("nccl_program", {probe("liblockstep_nccl_probe.so").string(), "5", "50"},
                  {"LOCKSTEP_PROBE=nccl", "LOCKSTEP_PROBE_FOLDER=" + folder.path().string()});
  const ProbedRun run = read_rings(folder.path(), code);

  const CollectiveCall& call = run.calls[20];
  ASSERT_TRUE(call.begin_ms) << "the first half second of a run is timed";
  EXPECT_NEAR(*call.end_ms - *call.begin_ms, 0.3, 0.2);
  EXPECT_NEAR(*call.end_ms, call.queued_ms, 20) << "the GPU's clock was five seconds ahead";
}

TEST(NcclProbe, LeavesTheKernelsTimesToTheCudaProbe) {
  const TemporaryFolder folder;
  const int code =
      run_program("nccl_program", {probe("liblockstep_nccl_probe.so").string(), "5", "10"},
                  {"LOCKSTEP_PROBE=nccl,cuda", "LOCKSTEP_PROBE_FOLDER=" + folder.path().string()});
  const ProbedRun run = read_rings(folder.path(), code);

  ASSERT_EQ(run.calls.size(), 11U);
  EXPECT_FALSE(run.calls[5].begin_ms);
}

TEST(NcclProbe, HandsTheUsersOwnPluginWhatItAsksFor) {
  const TemporaryFolder folder;
  const fs::path said = folder.path() / "said";
  const int code =
      run_program("nccl_program", {probe("liblockstep_nccl_probe.so").string(), "5", "3"},
                  {"LOCKSTEP_PROBE=nccl", "LOCKSTEP_PROBE_FOLDER=" + folder.path().string(),
                   "LOCKSTEP_NCCL_PROFILER_PLUGIN=" + testing::test_tool("libusers_profiler.so"),
                   "USERS_PROFILER=" + said.string()});

  EXPECT_EQ(code, 0);
  const std::string lines = read_small_file(said).value_or("");
  EXPECT_THAT(lines, HasSubstr("init 2\n"));
  EXPECT_THAT(lines, HasSubstr("start 2\n")) << "a collective, which it asked for";
  EXPECT_THAT(lines, HasSubstr("parent 2\n")) << "its own number of the call around it, not ours";
  EXPECT_THAT(lines, ::testing::Not(HasSubstr("start 64\n")))
      << "kernels' channels, for which only we asked";
  EXPECT_THAT(lines, HasSubstr("finalize 0\n"));
  EXPECT_EQ(read_rings(folder.path(), 0).calls.size(), 4U) << "and we see them too";
}

TEST(NcclProbe, ThatNobodyAskedForStaysOut) {
  const TemporaryFolder folder;
  const int code =
      run_program("nccl_program", {probe("liblockstep_nccl_probe.so").string(), "5", "3"},
                  {"LOCKSTEP_PROBE=python", "LOCKSTEP_PROBE_FOLDER=" + folder.path().string()});

  EXPECT_EQ(code, 6) << "its mask stays empty, so NCCL calls nothing";
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(NcclProbe, WithoutAFolderItSaysSoAndTheProgramGoesOn) {
  EXPECT_EQ(run_program("nccl_program", {probe("liblockstep_nccl_probe.so").string(), "5", "3"},
                        {"LOCKSTEP_PROBE=nccl", "LOCKSTEP_PROBE_FOLDER=/nowhere/at/all"}),
            6);
}

// The rows of a ring as they are.
struct RawRows {
  std::vector<lockstep_device_row> rows;
  std::vector<std::string> names;
  std::vector<std::string> facts;
};
RawRows raw_rows(const fs::path& folder) {
  RawRows raw;
  WireReader reader(folder);
  reader.follow_all();
  reader.read([&](const WireOwner& owner, const lockstep_record& record) {
    EXPECT_EQ(owner.role, LOCKSTEP_ROLE_CUDA);
    if (record.kind == LOCKSTEP_RECORD_NAME) raw.names.emplace_back(record.payload.name.text);
    if (record.kind == LOCKSTEP_RECORD_FACT) raw.facts.emplace_back(record.payload.fact);
    if (record.kind == LOCKSTEP_RECORD_DEVICE)
      for (std::size_t i = 0; i < record.size / sizeof(lockstep_device_row); ++i)
        raw.rows.push_back(record.payload.rows[i]);
  });
  EXPECT_EQ(reader.dropped(), 0U);
  return raw;
}

int run_cuda_program(const fs::path& folder, const std::string& kernels,
                     const std::string& more = "") {
  std::vector<std::string> words = {probe("liblockstep_cuda_probe.so").string(), kernels};
  if (!more.empty()) words.push_back(more);
  return run_program("cuda_program", words,
                     {"LOCKSTEP_PROBE=cuda", "LOCKSTEP_PROBE_FOLDER=" + folder.string()});
}

TEST(CudaProbe, TellsEveryKernelCopyAndWait) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_cuda_program(folder.path(), "5000"), 0);

  const RawRows raw = raw_rows(folder.path());

  const auto count = [&](lockstep_device_kind kind) {
    return std::ranges::count_if(
        raw.rows, [kind](const lockstep_device_row& row) { return row.kind == kind; });
  };
  EXPECT_EQ(count(LOCKSTEP_DEVICE_KERNEL), 5000);
  EXPECT_EQ(count(LOCKSTEP_DEVICE_COPY), 1);
  EXPECT_EQ(count(LOCKSTEP_DEVICE_WAIT), 3) << "nine seconds in pieces of four";
  ASSERT_EQ(raw.names.size(), 2U) << "each name once";
  EXPECT_EQ(raw.names[1], "void gemm<128>(float const*, float const*, float*)");
  const auto kernel = std::ranges::find_if(
      raw.rows, [](const lockstep_device_row& row) { return row.kind == LOCKSTEP_DEVICE_KERNEL; });
  EXPECT_EQ(kernel->duration_ns, 500U);
  EXPECT_EQ(kernel->stream, 7);
  EXPECT_THAT(raw.facts, ::testing::Contains(HasSubstr("cuda_probe stopped=end")));
}

TEST(CudaProbe, StopsWhenTorchsProfilerStarts) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_cuda_program(folder.path(), "10", "torch.profiler"), 0);

  const RawRows raw = raw_rows(folder.path());

  EXPECT_THAT(raw.facts, ::testing::Contains(HasSubstr("cuda_probe stopped=torch.profiler")));
  EXPECT_GE(raw.rows.size(), 10U) << "what it had is handed over";
}

TEST(CudaProbe, HasCuptiLeaveTheProcessBetweenWindows) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_cuda_program(folder.path(), "700", "windows"), 0);

  const RawRows raw = raw_rows(folder.path());

  EXPECT_EQ(raw.rows.size(), 2100U) << "of both windows, all; of the time between, none";
  ASSERT_EQ(raw.names.size(), 2U) << "each name once";
  EXPECT_THAT(raw.names[1], ::testing::EndsWith("_other"));
  EXPECT_EQ(std::ranges::count(raw.rows, 1U, &lockstep_device_row::subject), 1400);
  std::vector<std::string> edges;
  for (const std::string& fact : raw.facts)
    if (fact.find("rested") == std::string::npos) edges.push_back(fact.substr(0, fact.find('=')));
  EXPECT_THAT(
      edges, ::testing::ElementsAre("cuda_probe attached", "cuda_probe opened", "cuda_probe closed",
                                    "cuda_probe left", "cuda_probe attached", "cuda_probe opened",
                                    "cuda_probe closed", "cuda_probe left", "cuda_probe stopped"));
}

TEST(CudaProbe, HasCuptiStayBesideAThreadThatMayCallCuda) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_cuda_program(folder.path(), "10", "beside"), 0);
}

TEST(CudaProbe, OverwritesTheOldestRatherThanWait) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_cuda_program(folder.path(), "600000"), 0);  // 60,000 records for 32,768 places

  const RawRows raw = raw_rows(folder.path());

  EXPECT_GT(raw.rows.size(), 300'000U);
  EXPECT_EQ(raw.rows.back().kind, LOCKSTEP_DEVICE_WAIT) << "the newest is there";
}

TEST(CudaProbe, StaysOutWhereNobodyAsked) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_program(
                "cuda_program", {probe("liblockstep_cuda_probe.so").string(), "10"},
                {"LOCKSTEP_PROBE=python,host", "LOCKSTEP_PROBE_FOLDER=" + folder.path().string()}),
            0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace lockstep
