// Bad input: what is said, and the exit code. Every error has a next step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_program.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProgramEnd;
using testing::run_lockstep;
using testing::TemporaryFolder;

struct BadCall {
  const char* title;
  std::vector<std::string> arguments;
  int code;
  const char* said;
};

void PrintTo(const BadCall& call, std::ostream* out) { *out << call.title; }

class BadInput : public ::testing::TestWithParam<BadCall> {};

TEST_P(BadInput, IsExplainedWithANextStep) {
  const ProgramEnd end = run_lockstep(GetParam().arguments);

  EXPECT_EQ(end.code, GetParam().code) << end.err;
  EXPECT_THAT(end.err, HasSubstr("lockstep: error: "));
  EXPECT_THAT(end.err, HasSubstr(GetParam().said));
  EXPECT_THAT(end.err, HasSubstr("\n  next: "));
  EXPECT_THAT(end.out, IsEmpty()) << "results go to stdout, words to stderr";
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, BadInput,
    ::testing::Values(
        BadCall{"UnknownCommand", {"monitr"}, 2, "unknown command 'monitr'"},
        BadCall{"UnknownOption", {"monitor", "--onec"}, 2, "unknown option '--onec'"},
        BadCall{"MissingValue", {"monitor", "--interval"}, 2, "--interval"},
        BadCall{"UnitlessDuration",
                {"monitor", "--once", "virtual:2", "--duration", "10"},
                2,
                "has no unit"},
        BadCall{"NegativeDuration",
                {"monitor", "--once", "virtual:2", "--duration=-5s"},
                2,
                "negative"},
        BadCall{"ZeroDuration",
                {"monitor", "--once", "virtual:2", "--duration", "0s"},
                2,
                "measures nothing"},
        BadCall{"IntervalTooShort",
                {"monitor", "--once", "virtual:2", "--interval", "9ms"},
                2,
                "between 10 ms"},
        BadCall{"UnknownFormat", {"monitor", "--once", "virtual:2", "--format", "xml"}, 2, "xml"},
        BadCall{"UnknownColor", {"monitor", "--once", "virtual:2", "--color", "pink"}, 2, "pink"},
        BadCall{"BadGpuList", {"monitor", "--once", "virtual:2", "--gpus", "a"}, 2, "GPU list 'a'"},
        BadCall{"GpuThatIsNotThere",
                {"monitor", "--once", "virtual:2", "--gpus", "0,7"},
                2,
                "GPU 7 of --gpus is not here"},
        BadCall{"BadPid", {"monitor", "--once", "virtual:2", "--pid", "me"}, 2, "not a process id"},
        BadCall{
            "PidWithoutGpu", {"monitor", "--once", "virtual:2", "--pid", "1"}, 3, "hold no GPU"},
        BadCall{
            "NoSuchFile", {"monitor", "--once", "/no/such/file"}, 3, "no such file: /no/such/file"},
        BadCall{"AFolder", {"monitor", "--once", "/"}, 3, "is a folder"},
        BadCall{"NothingThatIsKnown",
                {"monitor", "--once", "/etc/passwd"},
                3,
                "no input that lockstep knows"},
        BadCall{
            "EndlessInput", {"monitor", "--once", "/dev/zero"}, 3, "no input that lockstep knows"},
        BadCall{"NoVirtualGpus", {"monitor", "--once", "virtual:0"}, 2, "0 virtual GPUs"},
        BadCall{"VirtualOfNothing",
                {"monitor", "--once", "virtual:"},
                2,
                "neither a number nor a file"},
        BadCall{"VirtualFileMissing",
                {"monitor", "--once", "virtual:/no/such"},
                2,
                "neither a number of GPUs nor a recording"},
        BadCall{"VirtualModelUnknown",
                {"monitor", "--once", "virtual:2xVoodoo"},
                2,
                "there is no virtual GPU like Voodoo"},
        BadCall{"RecordWithoutFile", {"record", "virtual:2"}, 2, "no file to record to"},
        BadCall{"RecordIntoNowhere",
                {"record", "-o", "/no/such/x.jsonl", "virtual:2", "--duration", "100ms"},
                2,
                "cannot write"},
        BadCall{
            "CommandWhereNoneIsTaken", {"monitor", "--once", "--", "ls"}, 2, "takes no command"},
        BadCall{"NoCommand",
                {"record", "-o", "/tmp/never-written", "virtual:2", "--"},
                2,
                "no command after --"},
        BadCall{"HelpOnNothing", {"help", "reocrd"}, 2, "no command 'reocrd'"},
        BadCall{"UnknownShell", {"completions", "tcsh"}, 2, "tcsh"},
        BadCall{"ConfigMissing",
                {"monitor", "--once", "--config", "/no/such", "virtual:2"},
                2,
                "/no/such"},
        BadCall{"DoctorOnAFile", {"doctor", "/etc/passwd"}, 2, "not at files"}),
    [](const auto& information) { return information.param.title; });

TEST(BadFiles, AreNamed) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& content) {
    return run_lockstep({"monitor", "--once", folder.write("file", content).string()});
  };

  EXPECT_THAT(said("").err, HasSubstr("is empty"));
  EXPECT_THAT(said("{\"lockstep_recording\":9,\"gpus\":[]}\n").err, HasSubstr("version 9"));
  EXPECT_THAT(said(testing::recording_text(testing::two_gpu_machine(), {})).err,
              HasSubstr("holds no reading"));
  EXPECT_EQ(said("").code, 3);
  EXPECT_EQ(said("{\"lockstep_recording\":9,\"gpus\":[]}\n").code, 3);
}

TEST(BadFiles, CannotTakeOverTheTerminal) {
  const TemporaryFolder folder;

  const auto end =
      run_lockstep({"monitor", "--once", folder.write("x\x1b[2J", "\x1b[31mred\n").string()});

  EXPECT_THAT(end.err, ::testing::Not(HasSubstr("\x1b")));
}

TEST(Config, UnknownKeysAreErrorsWithASuggestion) {
  const TemporaryFolder folder;
  folder.write("lockstep/config.json", R"({"intervall": "200ms"})");

  const auto end = run_lockstep({"monitor", "--once", "virtual:1"},
                                {{"XDG_CONFIG_HOME", folder.path().string()}});

  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.err, HasSubstr("did you mean 'interval'?"));
}

TEST(Config, GivesDefaultsThatTheCommandLineOverrides) {
  const TemporaryFolder folder;
  folder.write("lockstep/config.json", R"({"format": "json", "duration": "100ms"})");
  const testing::Variables variables = {{"XDG_CONFIG_HOME", folder.path().string()}};

  EXPECT_THAT(run_lockstep({"monitor", "--once", "virtual:1"}, variables).out,
              HasSubstr("\"lockstep_report\": 1"));
  EXPECT_THAT(run_lockstep({"monitor", "--once", "virtual:1", "--format", "text"}, variables).out,
              HasSubstr("1 virtual GPU"));
}

TEST(NoDriver, IsAnErrorWithThreeAsItsCode) {
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "this machine has an NVIDIA driver";

  const auto end = run_lockstep({"monitor", "--once"});

  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.err, HasSubstr("libnvidia-ml.so.1 not found"));
  EXPECT_THAT(end.err, HasSubstr("virtual:2"));
}

}  // namespace
}  // namespace lockstep
