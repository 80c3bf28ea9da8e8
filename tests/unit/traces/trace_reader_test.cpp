// Trace files as profilers write them, and as disks and crashes leave them.
#include "sources/trace/trace_reader.hpp"

#include <gtest/gtest.h>

#include "sources/trace/event_stream.hpp"
#include "sources/trace/rank_matching.hpp"
#include "support/temporary_folder.hpp"
#include "support/trace_maker.hpp"

namespace lockstep {
namespace {

using namespace testing;

RankTrace read(std::string_view text, std::size_t block = 1U << 20U) {
  const auto bytes = TraceBytes::over(text, block);
  auto trace = read_trace(*bytes, "t.json", {});
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().what);
  return trace ? std::move(*trace) : RankTrace{};
}

TraceMaker two_kernels() {
  TraceMaker maker;
  maker.rank(3, 8)
      .device(9)
      .op("aten::mm", 90, 30)
      .kernel("gemm", 100, 110, 50)
      .kernel("add", 106, 160, 10);
  return maker;
}

TEST(TraceReader, ReadsRowsAndWhatTheFileSaysOfItself) {
  const RankTrace trace = read(two_kernels().text());

  ASSERT_EQ(trace.device_rows.size(), 2U);
  EXPECT_EQ(trace.host_rows.size(), 3U);
  EXPECT_EQ(trace.names[trace.device_rows[0].name], "gemm");
  EXPECT_EQ(trace.device_rows[0].start_ns, 110'000);
  EXPECT_EQ(trace.device_rows[0].duration_ns, 50'000);
  EXPECT_EQ(trace.device_rows[0].stream, 7);
  EXPECT_EQ(trace.device_rows[0].correlation, trace.host_rows[1].correlation);
  EXPECT_EQ(trace.told_rank, 3);
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.compute_capability.at(0).first, 9);
  EXPECT_FALSE(trace.flaws.cut);
}

TEST(TraceReader, FindsTheSameRowsHoweverTheBytesArrive) {
  TraceMaker maker;
  maker.rank(0, 2);
  for (int i = 0; i < 50; ++i)
    maker.kernel("k" + std::to_string(i), 10.0 * i, 10.0 * i + 6, 3)
        .event(
            R"({"ph":"X","cat":"cpu_op","name":"op } , { \"ph\" [","pid":1,"tid":1,"ts":5,"dur":1,"args":{"list":[{"a":1},{"b":2},{"c":{"d":3}}]}})");
  const std::string text = maker.text();

  for (const std::size_t block :
       {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1000}, text.size()}) {
    const RankTrace trace = read(text, block);
    EXPECT_EQ(trace.device_rows.size(), 50U) << "in blocks of " << block;
    EXPECT_EQ(trace.host_rows.size(), 100U) << "in blocks of " << block;
    EXPECT_EQ(trace.flaws.unreadable_events, 0U) << "in blocks of " << block;
    EXPECT_FALSE(trace.flaws.cut);
  }
}

TEST(TraceReader, ReadsAPlainListWithAndWithoutItsEnd) {
  const std::string event =
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"stream":7}})";

  EXPECT_EQ(read("[" + event + "," + event + "]").device_rows.size(), 2U);
  const RankTrace open = read("[" + event + ",\n" + event + "\n");
  EXPECT_EQ(open.device_rows.size(), 2U);
  EXPECT_FALSE(open.flaws.cut) << "the form allows it";
}

TEST(TraceReader, JoinsBeginAndEndOfEachThread) {
  const auto at = [](const char* phase, int thread, int us, const std::string& more) {
    return R"({"ph":")" + std::string(phase) + R"(","pid":1,"tid":)" + std::to_string(thread) +
           R"(,"ts":)" + std::to_string(us) + more + "}";
  };
  const std::string op = R"(,"cat":"cpu_op","name":"aten::mm")";
  const RankTrace trace =
      read("[" + at("B", 1, 10, op) + "," + at("B", 1, 12, R"(,"name":"without a category")") +
           "," + at("B", 2, 13, op) + "," + at("E", 1, 15, "") + "," + at("E", 2, 33, "") + "," +
           at("E", 1, 50, op) + "," + at("E", 1, 51, "") + "," +
           R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":9})" + "]");

  ASSERT_EQ(trace.host_rows.size(), 2U);
  EXPECT_EQ(trace.host_rows[0].duration_ns, 40'000) << "the inner one ended first";
  EXPECT_EQ(trace.host_rows[1].duration_ns, 20'000);
  EXPECT_EQ(trace.device_rows.size(), 1U);
}

TEST(TraceReader, WhatNeverEndsGoesOnToTheLastMoment) {
  const RankTrace trace =
      read(R"([{"ph":"B","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":10},)"
           R"({"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":20,"dur":30}])");

  ASSERT_EQ(trace.host_rows.size(), 2U);
  EXPECT_EQ(trace.host_rows[0].end_ns(), 50'000);
}

TEST(TraceReader, ReadsGzipAndSaysWhenItIsCut) {
  TemporaryFolder folder;
  TraceMaker maker;
  for (int i = 0; i < 3000; ++i)
    maker.kernel("kernel_" + std::to_string(i * 7919), 10.0 * i, 10.0 * i + 6, 3);
  const std::string packed = gzipped(maker.text());
  const auto whole = read_trace(folder.write("whole.json.gz", packed), {});
  const auto cut = read_trace(folder.write("cut.json.gz", packed.substr(0, packed.size() / 2)), {});
  std::string wrong = packed;
  wrong[packed.size() / 2] = static_cast<char>(wrong[packed.size() / 2] ^ 0x55);
  const auto damaged = read_trace(folder.write("damaged.json.gz", wrong), {});

  ASSERT_TRUE(whole && cut && damaged);
  EXPECT_EQ(whole->device_rows.size(), 3000U);
  EXPECT_FALSE(whole->flaws.cut || whole->flaws.damaged);
  EXPECT_GT(cut->device_rows.size(), 500U);
  EXPECT_TRUE(cut->flaws.cut);
  EXPECT_GT(damaged->device_rows.size(), 100U);
  EXPECT_TRUE(damaged->flaws.damaged || damaged->flaws.cut || damaged->flaws.unreadable_events > 0);
}

TEST(TraceReader, KeepsWhatItReadWhenThePlainFileEndsInTheMiddle) {
  const std::string text = two_kernels().text();
  const std::size_t second = text.find("\"add\"");

  const RankTrace trace = read(text.substr(0, second + 20));

  EXPECT_EQ(trace.device_rows.size(), 1U);
  EXPECT_TRUE(trace.flaws.cut);
}

TEST(TraceReader, PassesOverEventsThatAreNoJson) {
  for (const std::string broken :
       {R"({"ph":"X","cat":"kernel","name":"a"b","pid":0,"tid":7,"ts":1,"dur":2})",
        R"({"ph":"X","cat":"kernel","name":"open,"pid":0,"tid":7,"ts":1,"dur":2})",
        R"({"ph":"X","cat":"kernel","name":"x","ts":nan,"dur":2,"args":{]})"}) {
    TraceMaker maker;
    for (int i = 0; i < 20; ++i) maker.kernel("k", 10.0 * i, 10.0 * i + 6, 3);
    maker.event(broken);
    for (int i = 20; i < 40; ++i) maker.kernel("k", 10.0 * i, 10.0 * i + 6, 3);

    const RankTrace trace = read(maker.text());

    EXPECT_GE(trace.device_rows.size(), 39U) << broken;
    EXPECT_GE(trace.flaws.unreadable_events, 1U) << broken;
    EXPECT_FALSE(trace.flaws.cut) << broken;
  }
}

TEST(TraceReader, LeavesOutEventsWithoutADurationAndTakesNegativeOnesAsNone) {
  TraceMaker maker;
  maker.kernel("k", 1, 10, 3)
      .kernel("back", 5, 20, -4)
      .event(
          R"({"ph":"X","cat":"kernel","name":"endless","pid":0,"tid":7,"ts":30,"args":{"stream":7}})");

  const RankTrace trace = read(maker.text());

  ASSERT_EQ(trace.device_rows.size(), 2U);
  EXPECT_EQ(trace.device_rows[1].duration_ns, 0);
  EXPECT_EQ(trace.flaws.without_duration, 1U);
  EXPECT_EQ(trace.flaws.negative_durations, 1U);
}

TEST(TraceReader, ReadsNamesWithEscapesAndBytesThatAreNoUtf8) {
  TraceMaker maker;
  maker.event(
      R"({"ph":"X","cat":"cpu_op","name":"a \"quoted\" name\u00e9","pid":1,"tid":1,"ts":1,"dur":2})");
  maker.event(
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"odd \xff "
      "byte\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}");

  const RankTrace trace = read(maker.text());

  ASSERT_EQ(trace.host_rows.size(), 2U);
  EXPECT_EQ(trace.names[trace.host_rows[0].name].substr(0, 15), "a \"quoted\" name");
  EXPECT_EQ(trace.names[trace.host_rows[1].name], "odd ? byte");
}

TEST(TraceReader, ReadsNoEventTwiceWhereACommaIsMissing) {
  const std::string event =
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"stream":7}})";
  EXPECT_EQ(read("[" + event + " " + event + "," + event + "]").device_rows.size(), 3U);
  EXPECT_LE(read("[" + event + "}," + event + "]").device_rows.size(), 2U);
}

TEST(TraceReader, ReadsEventsThatNameNoThread) {
  const RankTrace trace = read(
      R"([{"ph":"X","cat":"user_annotation","name":"a","ts":1,"dur":5},{"ph":"X","cat":"cuda_runtime","name":"b","ts":2,"dur":5}])");
  ASSERT_EQ(trace.host_rows.size(), 2U);
  EXPECT_LT(trace.host_rows[1].thread, trace.threads.size());
}

TEST(TraceReader, ReadsFactsThatStandBehindTheEvents) {
  const RankTrace trace = read(
      R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"stream":7}}],"deviceProperties":[{"id":0,"name":"A"},{"id":1,"name":"B"}],
    "INFO":[{"x":"}, {\"ph\""}],"distributedInfo":{"rank":5,"world_size":6},"baseTimeNanoseconds":1719853884000000000})");

  EXPECT_EQ(trace.device_rows.size(), 1U);
  EXPECT_EQ(trace.told_rank, 5);
  EXPECT_EQ(trace.devices.size(), 2U);
  EXPECT_EQ(trace.base_unix_ns, 1'719'853'884'000'000'000);
  EXPECT_FALSE(trace.flaws.cut);
}

TEST(TraceReader, StopsAtAsManyRowsAsItWasTold) {
  TraceMaker maker;
  for (int i = 0; i < 10'000; ++i) maker.kernel("k", 10.0 * i, 10.0 * i + 6, 3);
  const auto bytes = TraceBytes::over(maker.text(), 1U << 16U);

  const auto trace = read_trace(*bytes, "t.json", {.most_rows = 8192});

  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->flaws.too_long);
  EXPECT_LT(trace->device_rows.size() + trace->host_rows.size(), 17'000U);
}

TEST(TraceReader, RefusesWhatIsNoTrace) {
  for (const std::string_view text :
       {"", "{}", "{\"traceEvents\":5}", "no json", "{\"a\":[1,2,", "\x1f\x8b broken"}) {
    const auto bytes = TraceBytes::over(text, 4);
    EXPECT_FALSE(read_trace(*bytes, "t.json", {})) << text;
  }
  EXPECT_EQ(read("{\"traceEvents\":[]}").events, 0U);
}

TEST(TraceTimes, AreExactToTheNanosecond) {
  EXPECT_EQ(nanoseconds_of("1690000000123456.789"), 1'690'000'000'123'456'789);
  EXPECT_EQ(nanoseconds_of("12"), 12'000);
  EXPECT_EQ(nanoseconds_of("0.0005"), 1);
  EXPECT_EQ(nanoseconds_of("0.0004"), 0);
  EXPECT_EQ(nanoseconds_of("-1.5"), -1500);
  EXPECT_EQ(nanoseconds_of("1.5e3"), 1'500'000);
  for (const char* const wrong : {"", "-", "x", "1x", "99999999999999999999", "1e400", "nan"})
    EXPECT_FALSE(nanoseconds_of(wrong)) << wrong;
}

TEST(TraceRanks, AreThoseThatTheFilesTell) {
  EXPECT_EQ(rank_in_name("/x/rank-3.json.gz"), 3);
  EXPECT_EQ(rank_in_name("trace_rank12.pt.trace.json"), 12);
  EXPECT_EQ(rank_in_name("Rank_0.json"), 0);
  EXPECT_EQ(rank_in_name("node_7.pt.trace.json"), 7);
  EXPECT_FALSE(rank_in_name("host_12345.1690000000.pt.trace.json")) << "a process and a time";
  EXPECT_FALSE(rank_in_name("resnet50.json"));
  EXPECT_FALSE(rank_in_name("resnet_v2.json"));

  const auto traces_of = [](std::vector<std::pair<std::string, std::optional<int>>> files) {
    std::vector<RankTrace> traces;
    for (auto& [name, told] : files) {
      traces.emplace_back();
      traces.back().file = name;
      traces.back().told_rank = told;
    }
    return traces;
  };
  auto told = traces_of({{"rank0.json", 1}, {"rank1.json", 0}});
  EXPECT_FALSE(match_ranks(told));
  EXPECT_EQ(told.front().file, "rank1.json") << "what the file says of itself goes before its name";
  auto named = traces_of({{"rank1.json", std::nullopt}, {"rank0.json", std::nullopt}});
  EXPECT_FALSE(match_ranks(named));
  EXPECT_EQ(named.front().file, "rank0.json");
  auto twice = traces_of({{"b.json", 0}, {"a.json", 0}});
  EXPECT_TRUE(match_ranks(twice)) << "the user is told of a guess";
  EXPECT_EQ(twice.back().rank, 1);
}

TEST(TraceDetection, IsByContent) {
  EXPECT_TRUE(looks_like_trace(R"({"schemaVersion": 1, "traceEvents": [)"));
  EXPECT_TRUE(looks_like_trace(R"( [ {"name":"x","ph":"X")"));
  EXPECT_FALSE(looks_like_trace(R"({"lockstep_recording":1})"));
  EXPECT_FALSE(looks_like_trace(R"([{"index":0}])"));
  EXPECT_FALSE(looks_like_trace("time,gpu,util"));
}

}  // namespace
}  // namespace lockstep
