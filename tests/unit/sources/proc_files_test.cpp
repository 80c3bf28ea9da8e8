#include "sources/host/proc_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ProcStatFile, SurvivesNamesWithBracketsAndBlanks) {
  const auto stat = parse_stat("42 (a) b (c)) R 7 1 1 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 999 0 0\n");

  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name, "a) b (c)");
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->parent_pid, 7);
  EXPECT_EQ(stat->cpu_ticks, 42U);
  EXPECT_EQ(stat->start_ticks, 999U);
}

TEST(ProcStatFile, CutShortIsNothing) {
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("42 (x"));
  EXPECT_FALSE(parse_stat("42 (x) R 1 2"));
}

TEST(EnvironmentFile, GivesTheListedNamesAndNoOthers) {
  using namespace std::string_view_literals;
  EXPECT_THAT(
      parse_environment(
          "RANK=1\0HF_TOKEN=secret\0AWS_SECRET_ACCESS_KEY=x\0WORLD_SIZE=2\0RANKED=no\0PATH=/bin\0"sv),
      ElementsAre(Pair("RANK", "1"), Pair("WORLD_SIZE", "2")));
}

TEST(StatusFile, GivesOwnerAndNamespacePids) {
  const auto status =
      parse_status("Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t4242\t17\n");

  EXPECT_EQ(status.user_id, 1000U);
  EXPECT_THAT(status.namespace_pids, ElementsAre(4242, 17));
}

TEST(MapsFile, NamesTheStackOnce) {
  EXPECT_THAT(
      parse_libraries(
          "7f00-7f01 r-xp 0 08:01 1 /v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so\n"
          "7f01-7f02 r--p 0 08:01 1 /v/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so\n"
          "7f02-7f03 r-xp 0 08:01 1 /v/nvidia/nccl/lib/libnccl.so.2\n"
          "7f03-7f04 rw-p 0 00:00 0 [heap]\n"),
      ElementsAre("nccl", "torch"));
  EXPECT_THAT(parse_libraries(""), IsEmpty());
}

TEST(IoFile, WithoutReadBytesIsNothing) {
  EXPECT_EQ(parse_io("rchar: 5\nread_bytes: 10\nwrite_bytes: 20\n")->write_bytes, 20U);
  EXPECT_FALSE(parse_io(""));
}

TEST(CommandFile, KeepsEmptyArguments) {
  using namespace std::string_view_literals;
  EXPECT_THAT(parse_command("python\0\0x\0"sv), ElementsAre("python", "", "x"));
  EXPECT_THAT(parse_command(""sv), IsEmpty());
}

TEST(ProcFiles, TellHowLongAThreadWaitedForACore) {
  EXPECT_EQ(parse_run_delay("1508623 90210 47\n"), 90210U);
  EXPECT_FALSE(parse_run_delay(""));
  EXPECT_FALSE(parse_run_delay("0\n"));
}

}  // namespace
}  // namespace lockstep
