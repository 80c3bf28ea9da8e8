// Which failure is the cause, and when a job is not started again.
#include "launch/logs/failure.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/clock.hpp"
#include "launch/logs/kernel_log.hpp"
#include "launch/ranks/restart_policy.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int exited(int code) { return code << 8; }
constexpr int killed_by(int signal) { return signal; }

RankEnd ended(int rank, int status, std::chrono::nanoseconds ago, bool asked = false) {
  RankEnd end;
  end.rank = end.local_rank = rank;
  end.index = static_cast<std::size_t>(rank);
  end.pid = 1000 + rank;
  end.wait_status = status;
  end.started = monotonic_now() - 60s;
  end.ended = monotonic_now() - ago;
  end.asked_to_end = asked;
  return end;
}

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"/w/train.py\", line 31, in <module>\n    "
    "main()\n  File \"/w/model.py\", line 7, in main\n    raise "
    "RuntimeError(\"boom\")\nRuntimeError: boom\n";

std::string error_json() {
  return R"({"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "File \"/w/model.py\", line 7, in main\n", "timestamp": "1"}}})";
}

TEST(FirstFailure, IsTheEarliestEndThatNobodyAskedFor) {
  const auto failure = first_failure(
      {ended(0, killed_by(SIGTERM), 1s, true), ended(1, exited(7), 3s), ended(2, exited(1), 2s)},
      std::vector<RankFiles>(3));

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->end.rank, 1);
  EXPECT_EQ(failure->end.exit_code(), 7);
}

TEST(FirstFailure, IsTheOneWhoseErrorFileIsOlderThoughItsProcessEndedLater) {
  const TemporaryFolder folder;
  std::vector<RankFiles> files(2);
  files[1].error_file = folder.write("error.json", error_json()).string();
  timespec past[2];
  ::clock_gettime(CLOCK_REALTIME, &past[0]);
  past[0].tv_sec -= 10;
  past[1] = past[0];
  ::utimensat(AT_FDCWD, files[1].error_file.c_str(), past, 0);

  const auto failure =
      first_failure({ended(0, exited(1), 5s), ended(1, exited(1), 2s, true)}, files);

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->end.rank, 1) << "its exception came first; it only took longer to go";
  EXPECT_EQ(failure->error->message, "RuntimeError: boom");
  EXPECT_EQ(failure->place, "/w/model.py:7");
}

TEST(FirstFailure, IsNoneWhereAllEndedWell) {
  EXPECT_FALSE(first_failure({ended(0, 0, 1s), ended(1, 0, 2s)}, std::vector<RankFiles>(2)));
}

TEST(FirstFailure, ReadsTheLogWhereThereIsNoErrorFile) {
  const TemporaryFolder folder;
  std::vector<RankFiles> files(1);
  std::string prefixed;
  for (std::size_t at = 0; at < kTraceback.size();) {
    const auto end = kTraceback.find('\n', at);
    prefixed += "[rank0]: " + kTraceback.substr(at, end - at + 1);
    at = end + 1;
  }
  files[0].stderr_file = folder.write("stderr.log", prefixed).string();

  const auto failure = first_failure({ended(0, exited(1), 1s)}, files);
  const std::string text = failure_text(*failure, {failure->end}, {"host", "python", true});

  EXPECT_EQ(failure->place, "/w/model.py:7");
  EXPECT_THAT(text, HasSubstr("error: RuntimeError: boom (at /w/model.py:7)")) << text;
}

TEST(FailureText, NamesTheFindingOfAKnownMessage) {
  Failure failure;
  failure.end = ended(3, exited(1), 1s);
  failure.error =
      ErrorFile{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", ""};

  const std::string text = failure_text(failure, {failure.end}, {"host", "python", true});

  EXPECT_THAT(text, HasSubstr("rank 3 failed first"));
  EXPECT_THAT(text, HasSubstr("B506 out-of-memory"));
}

TEST(FailureText, SaysWhatASignalMayMeanAndWhatTheKernelSays) {
  Failure failure;
  failure.end = ended(0, killed_by(SIGKILL), 1s);
  EXPECT_EQ(failure.end.exit_code(), 137);
  EXPECT_THAT(failure_text(failure, {failure.end}, {"h", "python", true}),
              HasSubstr("was killed by SIGKILL"));
  failure.kernel_says = kernel_line_about(
      "4,123,456,-;Memory cgroup out of memory: Killed process 1000 (python) total-vm:1kB", 1000);
  EXPECT_THAT(failure_text(failure, {failure.end}, {"h", "python", true}),
              HasSubstr("OOM killer ended it"));
}

TEST(FailureText, SaysWhichPythonLacksTorch) {
  Failure failure;
  failure.end = ended(0, exited(1), 1s);
  failure.last_lines = {"ModuleNotFoundError: No module named 'torch'"};
  EXPECT_THAT(failure_text(failure, {failure.end}, {"h", "/usr/bin/python3", true}),
              HasSubstr("/usr/bin/python3"));
}

TEST(ErrorFiles, AreReadInBothFormsAndHandedOnWithTheCode) {
  EXPECT_EQ(parse_error_file(error_json())->message, "RuntimeError: boom");
  EXPECT_EQ(parse_error_file(R"({"message": "plain", "timestamp": "5"})")->message, "plain");
  EXPECT_FALSE(parse_error_file("{"));
  EXPECT_FALSE(parse_error_file(R"({"message": 3})"));
  EXPECT_THAT(*with_error_code(error_json(), -9), HasSubstr("\"errorCode\":-9"));
  EXPECT_THAT(*with_error_code(R"({"message": "plain"})", 1), Not(HasSubstr("errorCode")))
      << "as torch's own handler has it";
}

TEST(KernelLines, TellOfOurProcessAndOfGpus) {
  EXPECT_EQ(kernel_line_about("Out of memory: Killed process 1234 (python)", 123), "")
      << "another's pid that begins alike";
  EXPECT_THAT(kernel_line_about("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", 1),
              HasSubstr("79"));
  EXPECT_EQ(kernel_line_about("eth0: link up", 1), "");
}

TEST(RestartPolicy, StopsWhenTheSameErrorComesTwiceAtTheSamePlace) {
  RestartPolicy policy(5);

  EXPECT_EQ(policy.after_failure("a.py:1 boom", 2s), RestartPolicy::Answer::restart);
  EXPECT_EQ(policy.after_failure("a.py:2 boom", 2s), RestartPolicy::Answer::restart)
      << "another place";
  EXPECT_EQ(policy.after_failure("a.py:2 boom", 2s), RestartPolicy::Answer::same_again);
}

TEST(RestartPolicy, GoesOnWhereThePlaceIsUnknownOrTheJobRanForLong) {
  RestartPolicy unknown(9);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(unknown.after_failure("", 2s), RestartPolicy::Answer::restart);
  RestartPolicy late(9);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(late.after_failure("a.py:1 link down", 3h), RestartPolicy::Answer::restart);
}

TEST(RestartPolicy, CountsAndWaitsLongerEachTime) {
  RestartPolicy policy(3);
  std::vector<std::chrono::nanoseconds> pauses;
  while (policy.after_failure("", 1s) == RestartPolicy::Answer::restart)
    pauses.push_back(policy.pause());

  EXPECT_THAT(pauses, ::testing::ElementsAre(0s, 1s, 2s));
  EXPECT_EQ(policy.left(), 0);
  EXPECT_EQ(RestartPolicy(0).after_failure("", 1s), RestartPolicy::Answer::none_left);
}

}  // namespace
}  // namespace lockstep
