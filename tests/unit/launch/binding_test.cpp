// Which processors ranks get, on machines that hwloc makes up: HWLOC_SYNTHETIC.
#include "launch/ranks/binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Two packages with two memory nodes each, each with two caches of two cores of two threads: 32
// processors.
std::vector<Processor> two_sockets() {
  ::setenv("HWLOC_SYNTHETIC", "pack:2 numa:2 l3:2 core:2 pu:2", 1);
  auto processors = read_processors();
  ::unsetenv("HWLOC_SYNTHETIC");
  EXPECT_TRUE(processors) << (processors ? "" : processors.error().what);
  return processors ? *processors : std::vector<Processor>();
}

const std::vector<std::optional<int>> kOneGpuANode = {0, 1, 2, 3};

std::vector<int> counted(int from, int to) {
  std::vector<int> numbers;
  for (int i = from; i < to; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Processors, AreReadWithWhatTheyShare) {
  const auto processors = two_sockets();

  ASSERT_EQ(processors.size(), 32U);
  EXPECT_EQ(processors[31].node, 3);
  EXPECT_EQ(processors[31].package, 1);
  EXPECT_EQ(processors[31].core, 15);
  EXPECT_EQ(processors[31].cache, 7);
  EXPECT_EQ(processors[30].core, processors[31].core) << "two threads of one core";
}

TEST(Binding, ByNodeGivesARankTheProcessorsNextToItsGpu) {
  const auto ranks = bind_ranks(two_sockets(), {2, 0}, Binding::node);

  EXPECT_EQ(ranks[0].processors, counted(16, 24));
  EXPECT_EQ(ranks[0].node, 2);
  EXPECT_EQ(ranks[1].processors, counted(0, 8));
}

TEST(Binding, BySocketGivesTheWholePackage) {
  const auto ranks = bind_ranks(two_sockets(), kOneGpuANode, Binding::socket);

  EXPECT_EQ(ranks[1].processors, counted(0, 16));
  EXPECT_EQ(ranks[2].processors, counted(16, 32));
}

TEST(Binding, ByCoresSharesANodeWithoutOverlapAndKeepsCoresWhole) {
  const auto ranks = bind_ranks(two_sockets(), {1, 1, 1, 1}, Binding::cores);

  std::set<int> seen;
  for (const RankBinding& rank : ranks) {
    EXPECT_THAT(rank.processors, SizeIs(2)) << "one core with its two threads";
    for (const int number : rank.processors) EXPECT_TRUE(seen.insert(number).second) << number;
  }
  EXPECT_EQ(seen, std::set<int>({8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Binding, ByCoreComplexGivesACacheEach) {
  const auto ranks = bind_ranks(two_sockets(), {0, 0, 0}, Binding::core_complex);

  EXPECT_EQ(ranks[0].processors, counted(0, 4));
  EXPECT_EQ(ranks[1].processors, counted(4, 8));
  EXPECT_EQ(ranks[2].processors, counted(0, 4)) << "round again";
}

TEST(Binding, WithoutGpusSpreadsRanksOverTheMachine) {
  const auto ranks = bind_ranks(two_sockets(), {std::nullopt, std::nullopt}, Binding::cores);

  EXPECT_EQ(ranks[0].node, 0);
  EXPECT_EQ(ranks[1].node, 2);
}

TEST(Binding, SharesCoresEvenlyWhereTheyRunOut) {
  ::setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1);
  const auto processors = read_processors();
  ::unsetenv("HWLOC_SYNTHETIC");
  ASSERT_TRUE(processors);

  const auto ranks = bind_ranks(*processors, std::vector<std::optional<int>>(4), Binding::cores);

  EXPECT_THAT(ranks[0].processors, ElementsAre(0));
  EXPECT_THAT(ranks[1].processors, ElementsAre(0));
  EXPECT_THAT(ranks[2].processors, ElementsAre(1));
  EXPECT_THAT(ranks[3].processors, ElementsAre(1));
}

}  // namespace
}  // namespace lockstep
