#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "recording/reader.hpp"
#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::BackgroundProgram;
using testing::content_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_lockstep;
using testing::TemporaryFolder;

std::vector<Record> records_of(const std::filesystem::path& file) {
  auto reader = RecordingReader::open(file);
  EXPECT_TRUE(reader) << reader.error().what;
  std::vector<Record> records = testing::all_records(*reader);
  EXPECT_FALSE(reader->losses().any());
  return records;
}

TEST(RecordCommand, WritesWhatCanBeReadBack) {
  const TemporaryFolder folder;
  for (const char* name : {"run.jsonl", "run.jsonl.zst"}) {
    const auto end = run_lockstep(
        {"record", "-o", (folder / name).string(), "virtual:2", "--duration", "700ms"});

    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_THAT(end.out, IsEmpty());
    EXPECT_THAT(end.err, HasSubstr("recorded "));
    const auto records = records_of(folder / name);
    const auto ticks = std::ranges::count_if(records, [](const Record& record) {
      return std::holds_alternative<GpuTick>(record.content);
    });
    EXPECT_GE(ticks, 6);
    EXPECT_LE(ticks, 14);  // a busy machine ends late; seen: 11
  }
}

TEST(RecordCommand, EndsWithTheCommandAndLeavesItsOutputAlone) {
  const TemporaryFolder folder;

  const auto end = run_lockstep({"record", "-o", (folder / "run").string(), "virtual:1", "--", "sh",
                                 "-c", "echo out; echo err >&2; sleep 0.3"});

  EXPECT_EQ(end.code, 0);
  EXPECT_EQ(end.out, "out\n");
  EXPECT_THAT(end.err, HasSubstr("err\n"));
  EXPECT_EQ(std::get<Event>(records_of(folder / "run").back().content),
            (Event{"command_ended", std::nullopt, "0"}));
}

TEST(RecordCommand, OnStandardOutputPutsTheCommandsWordsAside) {
  const auto end =
      run_lockstep({"record", "-o", "-", "virtual:1", "--", "echo", "from the command"});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, ::testing::StartsWith("{\"lockstep_recording\":1"));
  EXPECT_THAT(end.out, ::testing::Not(HasSubstr("from the command")));
  EXPECT_THAT(end.err, HasSubstr("from the command"));
}

TEST(RecordCommand, AFailingCommandIsFour) {
  const TemporaryFolder folder;

  const auto end = run_lockstep(
      {"record", "-o", (folder / "run").string(), "virtual:1", "--", "sh", "-c", "exit 7"});

  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.err, HasSubstr("ended with code 7"));
}

TEST(RecordCommand, WaitsForACommandThatOutlastsTheRecording) {
  const TemporaryFolder folder;
  const auto marker = folder / "finished";

  const auto end =
      run_lockstep({"record", "-o", (folder / "run").string(), "--duration", "200ms", "virtual:1",
                    "--", "sh", "-c", "sleep 0.8; touch " + marker.string()});

  EXPECT_EQ(end.code, 0);
  EXPECT_TRUE(std::filesystem::exists(marker))
      << "a recording that is over is no reason to stop a training run";
}

TEST(RecordCommand, InterruptedLeavesAWholeFileAndNoCommandBehind) {
  const TemporaryFolder folder;
  BackgroundProgram program({testing::lockstep_program(), "record", "--quiet", "-o",
                             (folder / "run").string(), "virtual:1", "--", "sleep", "60"});
  const auto lines = [&folder] {
    std::ifstream file(folder / "run");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  for (int i = 0; i < 200 && lines() < 2; ++i) std::this_thread::sleep_for(50ms);

  program.send(SIGTERM);

  EXPECT_EQ(program.wait(), 130);
  EXPECT_FALSE(records_of(folder / "run").empty());
}

TEST(RecordCommand, KilledLeavesAFileThatReads) {
  const TemporaryFolder folder;
  BackgroundProgram program({testing::lockstep_program(), "record", "--quiet", "-o",
                             (folder / "run.zst").string(), "virtual:1"});
  std::this_thread::sleep_for(2500ms);

  program.send(SIGKILL);
  program.wait();

  auto reader = RecordingReader::open(folder / "run.zst");
  ASSERT_TRUE(reader) << reader.error().what;
  int records = 0;
  while (reader->next()) ++records;
  EXPECT_GT(records, 8) << "at most a second is lost";
}

TEST(RecordCommand, HoldsNoSecret) {
  const TemporaryFolder folder;
  const std::string scope = "secret-" + std::to_string(::getpid());
  const BackgroundProgram work({testing::test_tool("vgpu_load"), "20", "0:0.1", "--register", "1"},
                               {{"LOCKSTEP_VIRTUAL_SCOPE", scope},
                                {"HF_TOKEN", "hf_verysecret"},
                                {"RANK", "0"},
                                {"WORLD_SIZE", "1"},
                                {"XDG_RUNTIME_DIR", folder.path().string()}});
  std::this_thread::sleep_for(300ms);

  run_lockstep({"record", "-o", (folder / "run").string(), "virtual:1", "--duration", "300ms"},
               {{"LOCKSTEP_VIRTUAL_SCOPE", scope}, {"XDG_RUNTIME_DIR", folder.path().string()}});

  EXPECT_THAT(content_of(folder / "run"), HasSubstr("\"RANK\":\"0\""));
  EXPECT_THAT(content_of(folder / "run"), ::testing::Not(HasSubstr("verysecret")));
}

}  // namespace
}  // namespace lockstep
