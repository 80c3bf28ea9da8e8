#include <gtest/gtest.h>

#include "render/words/fleet_words.hpp"

namespace lockstep {
namespace {

Finding of(std::vector<int> gpus, std::vector<int> ranks) {
  Finding finding;
  finding.code = FindingCode::straggler_rank;
  finding.gpus = std::move(gpus);
  finding.ranks = std::move(ranks);
  return finding;
}

TEST(WhereWords, NameTheLateRankWhereNoGpuIsKnown) {
  EXPECT_TRUE(has_a_place(of({}, {1})));
  EXPECT_EQ(where_words(of({}, {1})), "rank 1");
  EXPECT_EQ(where_words(of({2}, {1})), "GPU 2 (rank 1)");
}

TEST(WhereWords, SayNothingOfAllRanks) {
  EXPECT_FALSE(has_a_place(of({}, {0, 1, 2, 3}))) << "it is the job's";
  EXPECT_FALSE(has_a_place(of({}, {})));
}

}  // namespace
}  // namespace lockstep
