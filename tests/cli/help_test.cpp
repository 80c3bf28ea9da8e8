#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::run_lockstep;
using testing::run_program;
using testing::TemporaryFolder;

const std::vector<std::string> kCommands = {"monitor", "record",      "doctor",
                                            "help",    "completions", "man"};

TEST(Version, NamesTheCommitAndWhatIsBuiltIn) {
  const auto end = run_lockstep({"--version"});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, HasSubstr("lockstep "));
  EXPECT_THAT(end.out, HasSubstr("commit "));
  EXPECT_THAT(end.out, HasSubstr("built in: "));
}

TEST(Help, NamesEveryCommandAndTheExitCodes) {
  const auto end = run_lockstep({"help"});

  EXPECT_EQ(end.code, 0);
  for (const std::string& command : kCommands)
    EXPECT_THAT(end.out, HasSubstr("\n  " + command + " "));
  EXPECT_THAT(end.out, HasSubstr("Exit codes"));
}

TEST(Help, OfACommandIsTheSameInBothWays) {
  EXPECT_EQ(run_lockstep({"help", "record"}).out, run_lockstep({"record", "--help"}).out);
  EXPECT_THAT(run_lockstep({"help", "record"}).out, HasSubstr("Usage: lockstep record"));
}

TEST(Help, WithoutACommandIsAUsageError) { EXPECT_EQ(run_lockstep({}).code, 2); }

TEST(Completions, ForBashCompleteCommandsAndOptions) {
  const TemporaryFolder folder;
  const auto script = folder.write("completions", run_lockstep({"completions", "bash"}).out);
  const std::string ask =
      "source " + script.string() +
      "; COMP_WORDS=(lockstep mon); COMP_CWORD=1; _lockstep; echo \"${COMPREPLY[*]}\";"
      " COMP_WORDS=(lockstep record --red); COMP_CWORD=2; _lockstep; echo \"${COMPREPLY[*]}\"";

  const auto end = run_program({"bash", "-c", ask});

  EXPECT_EQ(end.out, "monitor\n--redact\n") << end.err;
}

TEST(Completions, ForZshAndFishNameEveryCommand) {
  for (const char* shell : {"zsh", "fish"}) {
    const auto end = run_lockstep({"completions", shell});
    EXPECT_EQ(end.code, 0);
    for (const std::string& command : kCommands) EXPECT_THAT(end.out, HasSubstr(command)) << shell;
  }
}

TEST(ManPage, HasEveryCommandAndOption) {
  const auto end = run_lockstep({"man"});

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, ::testing::StartsWith(".TH LOCKSTEP 1"));
  for (const std::string& command : kCommands)
    EXPECT_THAT(end.out, HasSubstr(".SS lockstep " + command));
  EXPECT_THAT(end.out, HasSubstr("\\-\\-redact"));
}

}  // namespace
}  // namespace lockstep
