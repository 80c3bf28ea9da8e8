// Where the GPU's time went: by hand on small traces, against HolisticTraceAnalysis's own results
// on real ones.
#include "traces/breakdown.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sources/trace/rank_matching.hpp"
#include "sources/trace/trace_reader.hpp"
#include "support/paths.hpp"
#include "support/real_data.hpp"
#include "support/trace_maker.hpp"

namespace lockstep {
namespace {

using namespace testing;
namespace fs = std::filesystem;

RankBreakdown breakdown_of(const TraceMaker& maker, BreakdownRules rules = BreakdownRules::exact) {
  std::vector<RankTrace> traces;
  traces.push_back(maker.trace());
  return break_down(traces, rules).ranks.front();
}

TEST(Breakdown, CountsEveryMomentOnce) {
  TraceMaker maker;
  maker.kernel("gemm", 0, 10, 40)
      .kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 30, 50, 20)
      .kernel("add", 90, 100, 10);

  const RankBreakdown rank = breakdown_of(maker);

  EXPECT_DOUBLE_EQ(rank.span_us, 100);
  EXPECT_DOUBLE_EQ(rank.idle_us, 20);
  EXPECT_DOUBLE_EQ(rank.compute_us, 50);
  EXPECT_DOUBLE_EQ(rank.non_compute_us, 30);
  EXPECT_DOUBLE_EQ(rank.communication_us, 50);
  EXPECT_DOUBLE_EQ(*rank.overlap, 0.4);
}

TEST(Breakdown, NamesTheReasonOfEveryGapOfAStream) {
  TraceMaker maker;
  maker
      .kernel("a", 0, 10, 40)     // ends at 50
      .kernel("b", 60, 70, 10)    // launched after 50: the host was late by 20
      .kernel("c", 62, 85, 15)    // launched in time, 5 later: the launch's own time
      .kernel("d", 64, 200, 10)   // launched in time, 100 later: waited for something
      .kernel("e", 66, 205, 20);  // begins before d ends: no gap

  const StreamIdle idle = breakdown_of(maker).streams.front();

  EXPECT_DOUBLE_EQ(idle.host_wait_us, 20);
  EXPECT_DOUBLE_EQ(idle.kernel_wait_us, 5);
  EXPECT_DOUBLE_EQ(idle.other_us, 100);
}

TEST(Breakdown, LeavesOutWhatTheLastStepLaunched) {
  TraceMaker maker;
  maker.annotation("ProfilerStep#1", 0, 100)
      .annotation("ProfilerStep#2", 100, 100)
      .kernel("a", 10, 20, 50)
      .kernel("b", 110, 120, 50);

  EXPECT_DOUBLE_EQ(breakdown_of(maker).span_us, 50);
  EXPECT_DOUBLE_EQ(breakdown_of(TraceMaker(maker).annotation("unrelated", 300, 1)).span_us, 50);
  TraceMaker one;
  one.annotation("ProfilerStep#1", 0, 200).kernel("a", 10, 20, 50).kernel("b", 110, 120, 50);
  EXPECT_DOUBLE_EQ(breakdown_of(one).span_us, 150) << "a single step is all there is";
}

TEST(Breakdown, DoesNotTakeWaitsAndAnnotationsForWork) {
  TraceMaker maker;
  maker.kernel("a", 0, 10, 10).kernel("b", 5, 90, 10);
  maker.event(
      R"({"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":0,"tid":7,"ts":20,"dur":60,"args":{"stream":7,"correlation":900,"device":0}})");
  maker.event(
      R"({"ph":"X","cat":"gpu_user_annotation","name":"forward","pid":0,"tid":7,"ts":10,"dur":90,"args":{"stream":7}})");

  EXPECT_DOUBLE_EQ(breakdown_of(maker).idle_us, 70);
  EXPECT_DOUBLE_EQ(breakdown_of(maker, BreakdownRules::like_hta).idle_us, 0)
      << "HTA does, and --compat hta says what HTA says";
}

TEST(Breakdown, NeverCountsAGapBackwards) {
  TraceMaker maker;
  maker.kernel("long", 0, 10, 100).kernel("inside", 5, 20, 10).kernel("after", 6, 115, 10);

  const StreamIdle exact = breakdown_of(maker).streams.front();
  const StreamIdle hta = breakdown_of(maker, BreakdownRules::like_hta).streams.front();

  EXPECT_DOUBLE_EQ(exact.kernel_wait_us, 5);
  EXPECT_DOUBLE_EQ(hta.kernel_wait_us + hta.other_us, -90 + 85)
      << "HTA looks at the row before, not at what still runs";
}

TEST(Breakdown, KnowsCollectivesOfOldAndNewNccl) {
  for (const char* const name :
       {"ncclKernel_AllReduce_RING_LL_Sum_float",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void ncclKernel_ReduceScatter"}) {
    TraceMaker maker;
    maker.kernel(name, 0, 10, 10);
    EXPECT_DOUBLE_EQ(breakdown_of(maker).communication_us, 10) << name;
  }
  TraceMaker compute;
  compute.kernel("void at::native::SyncBatchNormKernel", 0, 10, 10);
  EXPECT_DOUBLE_EQ(breakdown_of(compute).compute_us, 10);
}

// ---- real traces

fs::path traces_folder() { return real_data() / "traces"; }

double rounded(double value, double steps) { return std::round(value * steps) / steps; }

std::string hta_name(const TypeSum& sum) {
  std::string name;
  for (const KernelType type : sum.types)
    name += (name.empty() ? "" : " overlapping ") +
            std::string(type == KernelType::compute         ? "COMPUTATION"
                        : type == KernelType::communication ? "COMMUNICATION"
                                                            : "MEMORY");
  return name;
}

const StreamIdle* stream_of(const RankBreakdown& rank, int stream) {
  for (const StreamIdle& idle : rank.streams)
    if (idle.stream == stream) return &idle;
  return nullptr;
}

TEST(GoldenTraces, EqualHolisticTraceAnalysisOnEveryField) {
  SKIP_WITHOUT_DATA(traces_folder() / "golden.json");
  std::ifstream stream(traces_folder() / "golden.json");
  const auto golden = nlohmann::json::parse(stream);

  for (const auto& [name, expected] : golden["traces"].items()) {
    std::vector<std::string> paths;
    for (const auto& file : expected["files"])
      paths.push_back((traces_folder() / file["file"].get<std::string>()).string());
    auto traces = read_traces(paths, {.round_like_hta = true});
    ASSERT_TRUE(traces) << name;
    match_ranks(*traces);
    const TraceBreakdown breakdown = break_down(*traces, BreakdownRules::like_hta);
    const auto rank_of = [&](int rank) -> const RankBreakdown& {
      return *std::ranges::find_if(breakdown.ranks,
                                   [&](const RankBreakdown& entry) { return entry.rank == rank; });
    };
    for (const auto& row : expected["temporal"]) {
      const RankBreakdown& rank = rank_of(row["rank"]);
      EXPECT_EQ(rank.idle_us, row["idle_time(us)"].get<double>()) << name;
      EXPECT_EQ(rank.compute_us, row["compute_time(us)"].get<double>()) << name;
      EXPECT_EQ(rank.non_compute_us, row["non_compute_time(us)"].get<double>()) << name;
      EXPECT_EQ(rank.span_us, row["kernel_time(us)"].get<double>()) << name;
      EXPECT_DOUBLE_EQ(rounded(100 * rank.idle_us / rank.span_us, 100),
                       row["idle_time_pctg"].get<double>())
          << name;
    }
    for (const auto& row : expected["comm_comp_overlap"]) {
      const auto& overlap = rank_of(row["rank"]).overlap;
      ASSERT_EQ(overlap.has_value(), !row["comp_comm_overlap_pctg"].is_null()) << name;
      EXPECT_DOUBLE_EQ(overlap ? rounded(100 * *overlap, 100) : -1,
                       row["comp_comm_overlap_pctg"].is_null()
                           ? -1
                           : row["comp_comm_overlap_pctg"].get<double>())
          << name;
    }
    for (const auto& row : expected["idle"]) {
      const StreamIdle* const idle = stream_of(rank_of(row["rank"]), row["stream"]);
      ASSERT_NE(idle, nullptr) << name << " stream " << row["stream"];
      const double whole = idle->host_wait_us + idle->kernel_wait_us + idle->other_us;
      const std::string category = row["idle_category"];
      const double time = category == "host_wait"     ? idle->host_wait_us
                          : category == "kernel_wait" ? idle->kernel_wait_us
                                                      : idle->other_us;
      EXPECT_EQ(time, row["idle_time"].get<double>())
          << name << " stream " << row["stream"] << " " << category;
      EXPECT_DOUBLE_EQ(whole != 0 ? rounded(time / whole, 100) : -1,
                       row["idle_time_ratio"].is_null() ? -1 : row["idle_time_ratio"].get<double>())
          << name;
    }
    double all = 0;
    for (const TypeSum& sum : breakdown.types) all += sum.sum_us;
    for (const auto& row : expected["kernel_types"]) {
      if (row["sum"] == 0) continue;  // depends on the order of equal times
      const auto found = std::ranges::find_if(breakdown.types, [&](const TypeSum& sum) {
        return hta_name(sum) == row["kernel_type"].get<std::string>();
      });
      ASSERT_NE(found, breakdown.types.end()) << name << " " << row["kernel_type"];
      EXPECT_EQ(found->sum_us, row["sum"].get<double>()) << name;
      EXPECT_DOUBLE_EQ(rounded(100 * found->sum_us / all, 10), row["percentage"].get<double>())
          << name;
    }
    for (const auto& [rank, categories] : expected["gpu_rows_by_category"].items()) {
      std::uint64_t expected_rows = 0;
      std::uint64_t rows = 0;
      for (const auto& [category, count] : categories.items())
        expected_rows += count.get<std::uint64_t>();
      for (const auto& [category, count] : rank_of(std::stoi(rank)).rows) rows += count;
      EXPECT_EQ(rows, expected_rows) << name;
    }
  }
}

TEST(GoldenTraces, AreExactInNanosecondsByDefault) {
  const fs::path file = traces_folder() / "ns_resolution_rank0.json.gz";
  SKIP_WITHOUT_DATA(file);
  auto traces = read_traces({file.string()}, {});
  ASSERT_TRUE(traces);

  const TraceBreakdown breakdown = break_down(*traces, BreakdownRules::exact);

  // By Python's decimal module over the same rows. HTA's rounding makes 10,113 us of it.
  EXPECT_NEAR(breakdown.ranks.front().idle_us, 6452.701, 1e-6);
  EXPECT_NEAR(breakdown.ranks.front().span_us, 384634.463, 1e-6);
}

}  // namespace
}  // namespace lockstep
