// torchrun's flags, as argparse reads them.
#include "launch/arguments/launch_arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Environment = std::map<std::string, std::string>;

Result<LaunchSettings> parsed(const std::vector<std::string>& words,
                              const Environment& environment = {}) {
  return parse_launch_arguments(words, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const std::vector<std::string>& words, const Environment& environment = {}) {
  const auto settings = parsed(words, environment);
  if (settings) return "not refused";
  EXPECT_EQ(settings.error().kind, ErrorKind::usage);
  EXPECT_FALSE(settings.error().next.empty());
  return settings.error().what + " | " + settings.error().next;
}

TEST(LaunchArguments, AreTorchrunsAndEndAtTheScript) {
  const auto settings = parsed({"--standalone", "--nproc-per-node=2", "--max-restarts", "3",
                                "train.py", "--nproc-per-node=9", "-r", "--", "x"});

  ASSERT_TRUE(settings);
  EXPECT_TRUE(settings->standalone);
  EXPECT_EQ(settings->processes_per_node, "2");
  EXPECT_EQ(settings->max_restarts, 3);
  EXPECT_EQ(settings->script, "train.py");
  EXPECT_THAT(settings->script_arguments, ElementsAre("--nproc-per-node=9", "-r", "--", "x"))
      << "the script's own, untouched";
}

TEST(LaunchArguments, MayHaveUnderscoresAndBeAbbreviated) {
  const auto settings = parsed({"--nproc_per_node=2", "--nn", "1", "--master_p", "29501",
                                "--rdzv-b=c10d", "--loc", "0", "a.py"});
  EXPECT_FALSE(settings) << "--loc may be --local-addr or --local-ranks-filter";
  const auto clear = parsed({"--nproc_per_node=2", "--nn", "1", "--master_p", "29501",
                             "--rdzv-b=c10d", "--local-r", "0", "a.py"});

  ASSERT_TRUE(clear);
  EXPECT_EQ(clear->processes_per_node, "2");
  EXPECT_EQ(clear->master_port, 29501);
  EXPECT_EQ(clear->backend, Backend::c10d);
  EXPECT_TRUE(clear->shown_ranks.contains(0));
  EXPECT_THAT(refusal({"--max", "1", "--m", "a.py"}), HasSubstr("--master-addr"))
      << "says what it may mean";
}

TEST(LaunchArguments, MaySwitchProbesOnWithoutNamingThem) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--probe", "train.py"}, "auto"},
      {{"--probe", "host,python", "train.py"}, "host,python"},
      {{"--probe=python", "train.py"}, "python"},
      {{"--probe", "--standalone", "train.py"}, "auto"}};
  for (const auto& [words, probes] : cases) {
    const auto settings = parsed(words);
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->probes, probes);
    EXPECT_EQ(settings->script, "train.py");
  }
}

TEST(LaunchArguments, NameTheNearestForAnUnknownFlag) {
  EXPECT_THAT(refusal({"--nprocs-per-node=2", "train.py"}),
              HasSubstr("did you mean --nproc-per-node?"));
  EXPECT_THAT(refusal({"--learning-rate", "1", "train.py"}), HasSubstr("after the script"));
}

TEST(LaunchArguments, ComeFromTheEnvironmentWhereNoFlagSaysOtherwise) {
  const Environment environment = {{"PET_NPROC_PER_NODE", "4"},
                                   {"PET_STANDALONE", "1"},
                                   {"PET_NO_PYTHON", "0"},
                                   {"PET_MAX_RESTARTS", "2"}};

  const auto settings = parsed({"--nproc-per-node=8", "train.py"}, environment);

  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->processes_per_node, "8");
  EXPECT_TRUE(settings->standalone);
  EXPECT_FALSE(settings->no_python);
  EXPECT_EQ(settings->max_restarts, 2);
  EXPECT_THAT(refusal({"train.py"}, {{"PET_NNODES", "two"}}), HasSubstr("PET_NNODES"));
  EXPECT_THAT(refusal({"train.py"}, {{"PET_STANDALONE", "yes"}}), HasSubstr("neither 0 nor 1"));
}

TEST(LaunchArguments, SayWhichStreamsGoWhere) {
  const auto all = parsed({"-r", "3", "-t1", "a.py"});
  const auto each = parsed({"--redirects=0:1,1:2", "a.py"});

  ASSERT_TRUE(all && each);
  EXPECT_TRUE(all->redirects.of(5).out && all->redirects.of(5).err);
  EXPECT_TRUE(all->tee.of(0).out && !all->tee.of(0).err);
  EXPECT_TRUE(each->redirects.of(0).out && !each->redirects.of(0).err);
  EXPECT_TRUE(each->redirects.of(1).err && !each->redirects.of(1).out);
  EXPECT_FALSE(each->redirects.of(2).any());
  EXPECT_THAT(refusal({"-r", "4", "a.py"}), HasSubstr("--redirects"));
  EXPECT_THAT(refusal({"-r", "0:1,1:", "a.py"}), HasSubstr("rank:streams"));
}

TEST(LaunchArguments, SplitFiltersAtSingleCommas) {
  const auto settings = parsed({"--duplicate-stdout-filters", "loss,,lr,error", "a.py"});

  ASSERT_TRUE(settings);
  EXPECT_THAT(settings->stdout_filters, ElementsAre("loss,lr", "error"));
}

TEST(LaunchArguments, AreRefusedInWordsWhereTheyMakeNoSense) {
  EXPECT_THAT(refusal({}), HasSubstr("no script"));
  EXPECT_THAT(refusal({"--standalone"}), HasSubstr("no script"));
  EXPECT_THAT(refusal({"--nproc-per-node=0", "a.py"}), HasSubstr("--nproc-per-node"));
  EXPECT_THAT(refusal({"--nproc-per-node=-1", "a.py"}), HasSubstr("--nproc-per-node"));
  EXPECT_THAT(refusal({"--master-port=70000", "a.py"}), HasSubstr("65535"));
  EXPECT_THAT(refusal({"--nnodes=3:1", "a.py"}), HasSubstr("--nnodes"));
  EXPECT_THAT(refusal({"--nnodes=2", "--node-rank=2", "a.py"}), HasSubstr("numbered from 0"));
  EXPECT_THAT(refusal({"--module", "--no-python", "a.py"}), HasSubstr("at once"));
  EXPECT_THAT(refusal({"--signals-to-handle=SIGFOO", "a.py"}), HasSubstr("SIGFOO"));
  EXPECT_THAT(refusal({"--grace=5", "a.py"}), HasSubstr("--grace")) << "durations carry a unit";
  EXPECT_THAT(refusal({"--nnodes", "--standalone", "a.py"}), HasSubstr("needs a value"));
  EXPECT_THAT(refusal({"--standalone=1", "a.py"}), HasSubstr("takes no value"));
  EXPECT_THAT(refusal({"--rdzv-backend=etcd", "a.py"}), HasSubstr("c10d"));
}

TEST(LaunchArguments, OfTorchrunThatMeanNothingHereAreNotedOrRefusedByName) {
  const auto noted = parsed({"--start-method=fork", "--event-log-handler=console", "a.py"});

  ASSERT_TRUE(noted);
  EXPECT_EQ(noted->notes.size(), 2U);
  EXPECT_THAT(parsed({"--event-log-handler=null", "a.py"})->notes, IsEmpty());
  EXPECT_THAT(refusal({"--run-path", "a.py"}), HasSubstr("--run-path"));
  EXPECT_THAT(refusal({"--logs-specs=mine", "a.py"}), HasSubstr("--logs-specs"));
}

TEST(LaunchArguments, AreAllOfTorchruns) {
  // torch 2.11's own list; a flag that is missing here breaks somebody's line.
  for (const char* name : {"--nnodes",
                           "--nproc-per-node",
                           "--rdzv-backend",
                           "--rdzv-endpoint",
                           "--rdzv-id",
                           "--rdzv-conf",
                           "--standalone",
                           "--max-restarts",
                           "--monitor-interval",
                           "--start-method",
                           "--event-log-handler",
                           "--role",
                           "--module",
                           "--no-python",
                           "--run-path",
                           "--log-dir",
                           "--redirects",
                           "--tee",
                           "--local-ranks-filter",
                           "--duplicate-stdout-filters",
                           "--duplicate-stderr-filters",
                           "--node-rank",
                           "--master-addr",
                           "--master-port",
                           "--local-addr",
                           "--logs-specs",
                           "--signals-to-handle",
                           "--virtual-local-rank",
                           "--numa-binding"})
    EXPECT_TRUE(std::any_of(launch_flags().begin(), launch_flags().end(),
                            [&](const LaunchFlag& flag) { return std::string(name) == flag.name; }))
        << name;
}

}  // namespace
}  // namespace lockstep
