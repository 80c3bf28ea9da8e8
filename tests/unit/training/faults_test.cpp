#include "training/faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "support/paths.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(Faults, HaveNamesOfTheirOwnAndCodesOfTheirOwn) {
  std::set<std::string_view> names;
  std::set<FindingCode> codes;
  for (const FaultRow& row : all_faults()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(codes.insert(row.code).second) << row.name;
  }

  EXPECT_EQ(fault_named("none"), nullptr);
  EXPECT_EQ(fault_named("slow-rank")->fault, TrainFault::slow_rank);
}

TEST(Faults, AreAllInTheDocumentedTable) {
  std::ifstream stream(std::filesystem::path(testing::source_tree()) / "docs/faults.md");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};

  for (const FaultRow& row : all_faults())
    EXPECT_THAT(
        text, HasSubstr("| `" + std::string(row.name) + "` | " + std::string(name_of(row.code).id) +
                        " " + std::string(name_of(row.code).name) + " | " +
                        std::string(name_of(row.by)) + " |"));
}

TEST(Faults, ThatAreSettingsAloneChangeThem) {
  TrainSettings settings;
  settings.batch_size = 8;
  settings.accumulation = 2;
  settings.fault = "small-passes";
  set_fault(settings);
  EXPECT_EQ(settings.batch_size, 1);
  EXPECT_EQ(settings.accumulation, 16) << "the update stays as large";

  TrainSettings none;
  const TrainSettings before = none;
  set_fault(none);
  EXPECT_EQ(none, before);
}

TEST(Faults, OfAnUnknownNameAreAnErrorWithTheNearest) {
  TrainSettings settings;
  const Status set = set_setting(settings, "fault", "slow-rnk");

  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().next, HasSubstr("slow-rank"));
}

}  // namespace
}  // namespace lockstep
