// lockstep launch, as a user runs it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/comes_true.hpp"
#include "support/paths.hpp"
#include "support/process_table.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

// These ranks need no GPU, however many the machine has.
const bool kWithoutGpus = ::setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0;

// A script of bash that each rank runs.
class Launch : public ::testing::Test {
 protected:
  std::string script(const std::string& lines) const {
    const fs::path file = folder.write("rank.sh", "#!/bin/bash\n" + lines);
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }
  ProgramEnd launch(std::vector<std::string> flags, const std::string& lines,
                    const Variables& variables = {}) const {
    flags.insert(flags.begin(), {"launch", "--no-python"});
    flags.push_back(script(lines));
    Variables around = variables;
    around.emplace("TMPDIR", (fs::create_directory(folder / "tmp"), folder / "tmp").string());
    return run_lockstep(flags, around);
  }
  bool temporary_folder_is_empty() const { return fs::is_empty(folder / "tmp"); }
  TemporaryFolder folder;
};

TEST_F(Launch, RunsAllRanksAndLeavesNoFileBehind) {
  const ProgramEnd end = launch({"--standalone", "--nproc-per-node=3"},
                                "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR\n");

  EXPECT_EQ(end.code, 0) << end.err;
  for (const char* rank : {"rank 0 of 3 at localhost\n", "rank 1 of 3", "rank 2 of 3"})
    EXPECT_THAT(end.out, HasSubstr(rank));
  EXPECT_EQ(end.err, "") << "nothing to say where all goes well";
  EXPECT_TRUE(temporary_folder_is_empty());
}

TEST_F(Launch, EndsWithTheRootCausesOwnCode) {
  const std::string others_wait = "[ $RANK = 1 ] && exit 7\nsleep 60\n";

  const ProgramEnd exited = launch({"--standalone", "--nproc-per-node=3"}, others_wait);
  const ProgramEnd killed =
      launch({"--standalone", "--nproc-per-node=2"}, "[ $RANK = 1 ] && kill -SEGV $$\nsleep 60\n");

  EXPECT_EQ(exited.code, 7);
  EXPECT_THAT(exited.err, HasSubstr("rank 1 failed first: it ended with exit code 7"));
  EXPECT_EQ(killed.code, 128 + SIGSEGV);
  EXPECT_THAT(killed.err, HasSubstr("SIGSEGV"));
}

TEST_F(Launch, WaitsForTheOthersWhereARankEndsEarlyWithZero) {
  const ProgramEnd end = launch({"--standalone", "--nproc-per-node=2"},
                                "[ $RANK = 0 ] && exit 0\nsleep 0.3; echo later\n");

  EXPECT_EQ(end.code, 0);
  EXPECT_THAT(end.out, HasSubstr("later"));
}

TEST_F(Launch, MakesARankThatIgnoresTheSignalEnd) {
  const ProgramEnd end =
      launch({"--standalone", "--nproc-per-node=2", "--grace=200ms"},
             "[ $RANK = 1 ] && exit 3\ntrap '' TERM\nsleep 60 & wait\nsleep 60\n");

  EXPECT_EQ(end.code, 3);
}

TEST_F(Launch, RestartsOnAFreshPortAndCountsAttempts) {
  const ProgramEnd end = launch({"--nproc-per-node=1", "--max-restarts=2", "--master-port=29533"},
                                "echo attempt $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT\n[ "
                                "$TORCHELASTIC_RESTART_COUNT = 1 ]\n");

  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("attempt 0 port 29533\n"));
  EXPECT_THAT(end.out, HasSubstr("attempt 1 port "));
  EXPECT_THAT(end.out, Not(HasSubstr("attempt 1 port 29533")));
  EXPECT_THAT(end.err, HasSubstr("restart 1 of 2"));
}

TEST_F(Launch, DoesNotTryTheSameErrorOverAndOver) {
  const std::string fails =
      "echo '  File \"/w/train.py\", line 31, in <module>' >&2\necho 'RuntimeError: boom' "
      ">&2\nexit 1\n";

  const ProgramEnd end = launch({"--standalone", "--max-restarts=5", "-t", "2"}, fails);

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.err, HasSubstr("the same error came twice at /w/train.py:31"));
  EXPECT_THAT(end.err, HasSubstr("4 of 5 restarts are left"));
}

TEST_F(Launch, LaysOutLogsAsTorchrunDoes) {
  const fs::path logs = folder / "logs";
  const ProgramEnd end =
      launch({"--nproc-per-node=2", "--rdzv-id=job", "--log-dir=" + logs.string(), "-r", "0:1,1:2",
              "-t", "1:1", "--max-restarts=1"},
             "echo out $RANK; echo err $RANK >&2; sleep 0.3; exit 1\n");

  ASSERT_EQ(std::distance(fs::directory_iterator(logs), {}), 1);
  const fs::path run = fs::directory_iterator(logs)->path();
  EXPECT_TRUE(run.filename().string().starts_with("job_"));
  EXPECT_EQ(run.filename().string().size(), std::string("job_").size() + 8);
  for (const char* attempt : {"attempt_0", "attempt_1"}) {
    EXPECT_EQ(content_of(run / attempt / "0" / "stdout.log"), "out 0\n");
    EXPECT_FALSE(fs::exists(run / attempt / "0" / "stderr.log"));
    EXPECT_EQ(content_of(run / attempt / "1" / "stderr.log"), "err 1\n");
    EXPECT_EQ(content_of(run / attempt / "1" / "stdout.log"), "out 1\n");
  }
  EXPECT_THAT(end.out, HasSubstr("[default1]:out 1\n"));
  EXPECT_THAT(end.out, Not(HasSubstr("out 0"))) << "redirected, not teed";
  EXPECT_THAT(end.err, HasSubstr("err 0\n"));
}

TEST_F(Launch, ShowsOnlyTheRanksAskedForAndKeepsTheFilesWhole) {
  const fs::path logs = folder / "logs";
  const ProgramEnd end =
      launch({"--nproc-per-node=2", "--role=trainer", "--log-dir=" + logs.string(), "-t", "3",
              "--local-ranks-filter=1", "--duplicate-stdout-filters=loss", "--standalone"},
             "echo loss $RANK; echo other $RANK\n");
  const ProgramEnd untouched = launch(
      {"--standalone", "--nproc-per-node=2", "--local-ranks-filter=1"}, "echo plain $RANK\n");

  EXPECT_EQ(end.out, "[trainer1]:loss 1\n[trainer1]:other 1\n");
  const fs::path attempt = fs::directory_iterator(logs)->path() / "attempt_0";
  EXPECT_EQ(content_of(attempt / "0" / "stdout.log"), "loss 0\nother 0\n");
  EXPECT_EQ(content_of(attempt / "filtered_stdout.log"), "[trainer1]:loss 1\n");
  EXPECT_EQ(untouched.out, "plain 1\n");
}

TEST_F(Launch, PutsTheUsersTemplateBeforeLines) {
  const ProgramEnd end =
      launch({"--standalone", "--nproc-per-node=1", "-t", "1"}, "echo x\n",
             {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${role_name} $rank ${local_rank}> "}});

  EXPECT_EQ(end.out, "<default 0 0> x\n");
}

TEST_F(Launch, FoldsLinesThatAllRanksWriteAndKeepsEachRanksOrder) {
  const ProgramEnd end = launch({"--standalone", "--nproc-per-node=3", "-t", "1", "--fold"},
                                "echo begin; echo own $RANK; echo end\n");

  EXPECT_THAT(end.out, HasSubstr("[all 3]:begin\n"));
  EXPECT_THAT(end.out, HasSubstr("[default1]:own 1\n"));
  EXPECT_THAT(end.out, HasSubstr("[all 3]:end\n"));
  EXPECT_LT(end.out.find("begin"), end.out.find("own 0"));
  EXPECT_LT(end.out.find("own 2"), end.out.find("end\n"));
}

TEST_F(Launch, ShowsProgressBarsAsTheyGo) {
  const ProgramEnd end = launch({"--standalone", "-t", "1"},
                                "printf '10%%\\r20%%\\r\\n30%%\\r'; sleep 0.3; printf '\\nlast'\n");

  EXPECT_EQ(end.out, "[default0]:10%\n[default0]:20%\n[default0]:30%\n[default0]:last\n");
}

TEST_F(Launch, GoesOnWhenNobodyReadsItsOutput) {
  const std::string file = script("for i in $(seq 2000); do echo line $i; done; sleep 0.3; touch " +
                                  (folder / "done").string() + "\n");

  const ProgramEnd end =
      run_program({"bash", "-c",
                   "set -o pipefail; " + lockstep_program() +
                       " launch --standalone -t 3 --no-python " + file + " | head -1"});

  EXPECT_EQ(end.out, "[default0]:line 1\n");
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(fs::exists(folder / "done"));
}

TEST_F(Launch, StopsItsRanksThoughTheConsoleStandsStill) {
  const std::string file =
      script("cd " + folder.path().string() +
             "\n[ $RANK = 1 ] && { sleep 0.5; date +%s%N > failed; exit 5; }\n"
             "trap 'date +%s%N > stopped; exit 0' TERM\nfor i in $(seq 20000); do echo a line that "
             "fills the pipe; done\nwhile true; do sleep 0.02; done\n");

  const ProgramEnd end =
      run_program({"bash", "-c",
                   "set -o pipefail; " + lockstep_program() +
                       " launch --standalone --nproc-per-node=2 --quiet -t 1 --no-python " + file +
                       " | sleep 4"});

  EXPECT_EQ(end.code, 5);
  EXPECT_LT(std::stoll(content_of(folder / "stopped")) - std::stoll(content_of(folder / "failed")),
            2'000'000'000)
      << "nobody read for four seconds";
}

TEST_F(Launch, SaysNothingWhereNothingCanBeSaidAndGoesOn) {
  const std::string file = script("[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3\n");

  EXPECT_EQ(run_program({"bash", "-c",
                         lockstep_program() + " launch --standalone --max-restarts=1 --no-python " +
                             file + " 2>/dev/full"})
                .code,
            0);
  EXPECT_EQ(run_program({"bash", "-c",
                         lockstep_program() + " launch --standalone --no-python " + file + " 2>&-"})
                .code,
            3);
  EXPECT_EQ(
      run_program({"bash", "-c", lockstep_program() + " launch --no-such-flag 2>/dev/full"}).code,
      2);
}

TEST_F(Launch, LosesNoLineOfALargeOutput) {
  const ProgramEnd end =
      launch({"--standalone", "--nproc-per-node=2", "-t", "1"}, "seq 1 100000\n");

  EXPECT_EQ(std::ranges::count(end.out, '\n'), 200'000);
  EXPECT_THAT(end.out, HasSubstr("[default0]:100000\n"));
  EXPECT_THAT(end.out, HasSubstr("[default1]:100000\n"));
}

TEST_F(Launch, EndsRanksThatHaveHardlyBegun) {
  for (int round = 0; round < 10; ++round) {
    const auto began = std::chrono::steady_clock::now();
    const ProgramEnd end = launch({"--standalone", "--nproc-per-node=16", "--grace=20s"},
                                  "[ $RANK = 0 ] && exit 3\nsleep 60\n");
    ASSERT_EQ(end.code, 3);
    ASSERT_LT(std::chrono::steady_clock::now() - began, 10s) << "a signal was lost";
  }
}

TEST_F(Launch, HandsTheErrorFileOnToWhoeverStartedIt) {
  const fs::path handed_on = folder / "parent.json";
  const ProgramEnd end = launch({"--standalone", "--nproc-per-node=2"},
                                "[ $RANK = 1 ] && { echo '{\"message\":{\"message\":\"ValueError: "
                                "no\",\"extraInfo\":{\"timestamp\":\"1\"}}}' > "
                                "$TORCHELASTIC_ERROR_FILE; exit 5; }\nsleep 60\n",
                                {{"TORCHELASTIC_ERROR_FILE", handed_on.string()}});

  EXPECT_EQ(end.code, 5);
  EXPECT_THAT(end.err, HasSubstr("error: ValueError: no"));
  const auto written = nlohmann::json::parse(content_of(handed_on));
  EXPECT_EQ(written["message"]["errorCode"], 5);
  EXPECT_EQ(written["message"]["message"], "ValueError: no");
}

TEST_F(Launch, StartsEachRankInItsOwnSession) {
  const ProgramEnd end = launch({"--standalone", "--nproc-per-node=1"},
                                "read -r pid comm state ppid pgrp sid rest < /proc/$$/stat; [ $pid "
                                "= $pgrp ] && [ $pid = $sid ] && echo own; pwd\n");

  EXPECT_THAT(end.out, HasSubstr("own\n"));
  EXPECT_THAT(end.out, HasSubstr(fs::current_path().string()));
}

TEST_F(Launch, RefusesInWordsWhatCannotRun) {
  const auto refused = [](const std::vector<std::string>& words, const Variables& variables = {}) {
    std::vector<std::string> line = {"launch", "--standalone"};
    line.insert(line.end(), words.begin(), words.end());
    const ProgramEnd end = run_lockstep(line, variables);
    EXPECT_THAT(end.err, HasSubstr("  next: "));
    EXPECT_TRUE(end.code == 2 || end.code == 3) << end.code;
    return end.err;
  };
  EXPECT_THAT(refused({"no_such_script.py"}), HasSubstr("there is no script no_such_script.py"));
  EXPECT_THAT(refused({"--no-python", "no_such_program"}), HasSubstr("there is no program"));
  EXPECT_THAT(refused({"--no-python", folder.write("plain.txt", "x").string()}),
              HasSubstr("not executable"));
  EXPECT_THAT(refused({"--nproc-per-node=gpu", "--no-python", "true"}), HasSubstr("no GPU"));
  EXPECT_THAT(refused({"--log-dir=/proc/logs", "--no-python", "true"}), HasSubstr("log folder"));
  // As an argument it is just short enough, as ROLE_NAME=... it is not.
  EXPECT_THAT(refused({"--role=" + std::string(131'064, 'x'), "--no-python", "true"}),
              HasSubstr("larger than the kernel takes"));
  EXPECT_THAT(refused({folder.path().string()}), HasSubstr("is a folder"));
  EXPECT_THAT(refused({"/bin/sh"}), HasSubstr("is a program, not a Python script"));
  EXPECT_THAT(refused({folder.write("x.py", "").string()}, {{"PYTHON_EXEC", "/no/python"}}),
              HasSubstr("PYTHON_EXEC"));
}

TEST_F(Launch, CountsVirtualGpus) {
  const ProgramEnd end = launch({"--standalone", "--nproc-per-node=gpu"}, "echo of $WORLD_SIZE\n",
                                {{"LOCKSTEP_VIRTUAL", "2"}});

  EXPECT_THAT(end.out, HasSubstr("of 2\nof 2\n"));
}

TEST_F(Launch, RunsPythonUnbufferedAndModules) {
  const fs::path file =
      folder.write("show.py",
                   "import sys\nprint(sys.flags.unbuffered if hasattr(sys.flags, 'unbuffered') "
                   "else sys.stdout.line_buffering or sys.stdout.write_through, sys.argv[1:])\n");

  const ProgramEnd as_script = run_lockstep({"launch", "--standalone", file.string(), "--lr", "1"},
                                            {{"PYTHON_EXEC", "python3"}});
  const ProgramEnd as_module =
      run_lockstep({"launch", "--standalone", "-m", "show", "--lr"},
                   {{"PYTHON_EXEC", "python3"}, {"PYTHONPATH", folder.path().string()}});
  const ProgramEnd old_script =
      run_lockstep({"launch", "--standalone", "--pass-local-rank", file.string(), "--lr"},
                   {{"PYTHON_EXEC", "python3"}});

  EXPECT_EQ(as_script.out, "True ['--lr', '1']\n") << as_script.err;
  EXPECT_EQ(as_module.out, "True ['--lr']\n") << as_module.err;
  EXPECT_EQ(old_script.out, "True ['--local-rank=0', '--lr']\n") << old_script.err;
}

class LaunchSignals : public Launch {
 protected:
  std::unique_ptr<BackgroundProgram> started(const std::string& lines,
                                             const std::vector<std::string>& flags = {}) {
    std::vector<std::string> command = {lockstep_program(),   "launch",  "--standalone",
                                        "--nproc-per-node=2", "--quiet", "--grace=5s",
                                        "--no-python"};
    command.insert(command.begin() + 2, flags.begin(), flags.end());
    command.push_back(script("cd " + folder.path().string() + "\n" + lines +
                             "touch up$RANK\nwhile true; do sleep 0.02; done\n"));
    auto program = std::make_unique<BackgroundProgram>(command);
    EXPECT_TRUE(comes_true_within(5s, [&] { return is_there("up0") && is_there("up1"); }));
    return program;
  }
  bool is_there(const std::string& name) const { return fs::exists(folder / name); }
};

TEST_F(LaunchSignals, ThatEndTheJobAreHandedOnAsTheyAre) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    for (const char* name : {"up0", "up1", "got0", "got1"}) fs::remove(folder / name);
    const auto program = started("trap 'touch got$RANK; exit 0' " + std::to_string(signal) + "\n");
    program->send(signal);
    EXPECT_EQ(program->wait(), 128 + signal);
    EXPECT_TRUE(is_there("got0") && is_there("got1")) << signal;
  }
}

TEST_F(LaunchSignals, OfSchedulersAreHandedOnAndTheJobGoesOn) {
  const auto program = started("trap 'touch usr1_$RANK' USR1\ntrap 'touch usr2_$RANK' USR2\n",
                               {"--signals-to-handle=SIGTERM,SIGUSR1"});
  program->send(SIGUSR1);
  program->send(SIGUSR2);
  EXPECT_TRUE(comes_true_within(5s, [&] {
    return is_there("usr1_0") && is_there("usr1_1") && is_there("usr2_0") && is_there("usr2_1");
  }));
  program->send(SIGTERM);
  EXPECT_EQ(program->wait(), 143) << "it was still there to be ended";
}

TEST_F(LaunchSignals, TwiceEndTheRanksAtOnce) {
  const auto program = started("trap '' INT TERM\n", {"--grace=60s"});
  const auto began = std::chrono::steady_clock::now();
  program->send(SIGINT);
  std::this_thread::sleep_for(100ms);
  program->send(SIGINT);
  EXPECT_EQ(program->wait(), 130);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
}

}  // namespace
}  // namespace lockstep
