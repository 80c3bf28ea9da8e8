// A flight recorder's dumps: pickles without code, JSON, and who is missing from which collective.
#include "sources/flight_recorder/flight_dump.hpp"

#include <gtest/gtest.h>

#include "detectors/told/flight_findings.hpp"
#include "signals/stuck_collectives.hpp"
#include "sources/flight_recorder/data_tree.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using namespace testing;
using namespace std::string_literals;

// A pickle, put together as torch does it.
class Pickle {
 public:
  Pickle& op(char instruction) {
    bytes_ += instruction;
    return *this;
  }
  Pickle& text(const std::string& words) {
    bytes_ += 'X';
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>((words.size() >> (8 * i)) & 0xFF);
    bytes_ += words;
    return *this;
  }
  Pickle& number(int value) {
    bytes_ += 'J';
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFF);
    return *this;
  }
  std::string end() const { return bytes_ + "."; }

 private:
  std::string bytes_ = "\x80\x02"s;
};

std::string entry(int sequence, const std::string& operation, const std::string& state,
                  int size = 8, int line = 3) {
  return R"({"process_group":["0","default_pg"],"collective_seq_id":)" + std::to_string(sequence) +
         R"(,"profiling_name":"nccl:)" + operation + R"(","input_sizes":[[)" +
         std::to_string(size) + R"(]],"state":")" + state +
         R"(","is_p2p":false,"frames":[{"filename":"/x/site-packages/torch/distributed/c10d.py","line":9,"name":"f"},{"filename":"/home/me/train.py","line":)" +
         std::to_string(line) + R"(,"name":"main"}]})";
}

FlightDump dump_of(int rank, const std::vector<std::string>& entries,
                   const std::string& ranks = "[0, 1, 2]") {
  std::string text =
      R"({"version":"2.10","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":")" + ranks +
      R"("}},"entries":[)";
  for (std::size_t i = 0; i < entries.size(); ++i) text += (i > 0 ? "," : "") + entries[i];
  auto dump = parse_flight_dump(text + "]}", "nccl_trace_rank_" + std::to_string(rank));
  EXPECT_TRUE(dump) << (dump ? "" : dump.error().what);
  dump->rank = rank;
  return std::move(*dump);
}

TEST(Pickles, OfPlainDataAreRead) {
  // {"entries": [{"state": "completed", "collective_seq_id": 7, "process_group": ("0",
  // "default_pg")}]}
  const std::string bytes = Pickle()
                                .op('}')
                                .text("entries")
                                .op(']')
                                .op('(')
                                .op('}')
                                .op('(')
                                .text("state")
                                .text("completed")
                                .text("collective_seq_id")
                                .number(7)
                                .text("process_group")
                                .text("0")
                                .text("default_pg")
                                .op('\x86')
                                .op('u')
                                .op('e')
                                .op('s')
                                .end();

  const auto dump = parse_flight_dump(bytes, "d");

  ASSERT_TRUE(dump) << dump.error().what;
  ASSERT_EQ(dump->entries.size(), 1U);
  EXPECT_EQ(dump->entries[0].sequence, 7);
  EXPECT_EQ(dump->entries[0].group, "0");
  EXPECT_TRUE(dump->entries[0].completed);
}

TEST(Pickles, ThatNameCodeAreRefusedAndNeverRun) {
  for (const std::string& bytes : {"\x80\x02"
                                   "cos\nsystem\n(X\x02\0\0\0lstR."s,
                                   "\x80\x04\x8c\x02os\x8c\x06system\x93."s,
                                   "\x80\x02"
                                   "}b."s,
                                   "\x80\x02"
                                   "ios\nsystem\n."s}) {
    const auto tree = read_pickle(bytes, "evil");
    ASSERT_FALSE(tree);
    EXPECT_NE(tree.error().what.find("is refused"), std::string::npos) << tree.error().what;
  }
}

TEST(Pickles, ThatAreCutOrWrongAreNamed) {
  const std::string whole = Pickle().op('}').text("entries").op(']').op('s').end();
  for (std::size_t length = 2; length < whole.size(); ++length)
    EXPECT_FALSE(read_pickle(whole.substr(0, length), "cut")) << length;
  for (const std::string& wrong : {"\x80\x02."s,
                                   "\x80\x02"
                                   "e."s,
                                   "\x80\x02"
                                   "h\x05."s,
                                   "\x80\x02X\xff\xff\xff\xff."s})
    EXPECT_FALSE(read_pickle(wrong, "wrong"));
}

TEST(Pickles, ThatContainThemselvesDoNoHarm) {
  // A list that is put into itself by way of the memory.
  EXPECT_TRUE(
      read_pickle("\x80\x02]q\x00h\x00"
                  "a."s,
                  "circle"));
}

TEST(FlightDumps, AreToldByTheirContent) {
  EXPECT_TRUE(looks_like_flight_dump("\x80\x02}q"s));
  EXPECT_TRUE(looks_like_flight_dump(R"({"version":"2.10","pg_config":{},"entries":[)"));
  EXPECT_FALSE(looks_like_flight_dump(R"({"traceEvents":[)"));
  EXPECT_FALSE(looks_like_flight_dump("\x80"));
}

TEST(StuckCollectives, NameTheRankThatDidNotCome) {
  const auto stuck = stuck_collectives(
      {dump_of(0, {entry(1, "all_reduce", "completed"), entry(2, "all_reduce", "started")}),
       dump_of(1, {entry(1, "all_reduce", "completed"), entry(2, "all_reduce", "started")}),
       dump_of(2, {entry(1, "all_reduce", "completed", 8, 31)})});

  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_EQ(stuck[0].sequence, 2);
  EXPECT_EQ(stuck[0].waiting, (std::vector<int>{0, 1}));
  EXPECT_EQ(stuck[0].missing, (std::vector<int>{2}));
  const auto findings = find_in_flight_dumps(stuck);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].code, FindingCode::stuck_collective);
  EXPECT_EQ(findings[0].ranks, (std::vector<int>{2}));
  EXPECT_EQ(findings[0].where.front().line, 31) << "the last line that the missing rank was at";
  EXPECT_EQ(findings[0].evidence[1].signal, "rank 2 has not called it: its last was number 1");
}

TEST(StuckCollectives, TellAFewThatWentAnotherWay) {
  const auto alone = find_in_flight_dumps(stuck_collectives(
      {dump_of(0, {entry(1, "all_reduce", "completed"), entry(2, "broadcast", "started", 8, 12)}),
       dump_of(1, {entry(1, "all_reduce", "completed")}),
       dump_of(2, {entry(1, "all_reduce", "completed")})}));
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_EQ(alone[1].code, FindingCode::rank_conditional_collective);
  EXPECT_EQ(alone[1].ranks, (std::vector<int>{0}));
  EXPECT_EQ(alone[1].where.front().line, 12);

  const auto apart =
      find_in_flight_dumps(stuck_collectives({dump_of(0, {entry(1, "broadcast", "started", 4)}),
                                              dump_of(1, {entry(1, "all_reduce", "started")}),
                                              dump_of(2, {entry(1, "all_reduce", "started")})}));
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_EQ(apart[1].ranks, (std::vector<int>{0}));
  EXPECT_DOUBLE_EQ(apart[1].confidence, 0.95);
}

TEST(StuckCollectives, AreNoneWhereDumpsWereTakenAtDifferentMoments) {
  EXPECT_TRUE(stuck_collectives({dump_of(0, {entry(100, "all_reduce", "completed")}, "[0, 1]"),
                                 dump_of(1,
                                         {entry(100, "all_reduce", "completed"),
                                          entry(101, "all_reduce", "completed")},
                                         "[0, 1]")})
                  .empty())
      << "what is done, all had called";
}

TEST(StuckCollectives, AreNoneWhereAllIsDone) {
  EXPECT_TRUE(stuck_collectives({dump_of(0, {entry(1, "all_reduce", "completed")}),
                                 dump_of(1, {entry(1, "all_reduce", "completed")}),
                                 dump_of(2, {entry(1, "all_reduce", "completed")})})
                  .empty());
  EXPECT_TRUE(stuck_collectives({}).empty());
}

TEST(StuckCollectives, SayWhoWroteNothingAndWhenNobodyIsMissing) {
  const auto silent = stuck_collectives({dump_of(0, {entry(5, "all_reduce", "started")}),
                                         dump_of(1, {entry(5, "all_reduce", "started")})});
  EXPECT_EQ(silent.at(0).without_dump, (std::vector<int>{2}));
  const auto network = find_in_flight_dumps(
      stuck_collectives({dump_of(0, {entry(5, "all_reduce", "started")}, "[0, 1]"),
                         dump_of(1, {entry(5, "all_reduce", "started")}, "[0, 1]")}));
  ASSERT_EQ(network.size(), 1U);
  EXPECT_DOUBLE_EQ(network[0].confidence, 0.75);
}

TEST(FlightDumps, KnowTheirRanksByTheirNames) {
  TemporaryFolder folder;
  const std::string text = R"({"entries":[)" + entry(1, "all_reduce", "completed") + "]}";
  const auto dumps = read_flight_dumps({folder.write("nccl_trace_rank_3", text).string(),
                                        folder.write("nccl_trace_rank_1", text).string()});
  ASSERT_TRUE(dumps);
  EXPECT_EQ(dumps->front().rank, 1);
  EXPECT_EQ(dumps->back().rank, 3);
  EXPECT_FALSE(read_flight_dumps({(folder / "missing").string()}));
}

}  // namespace
}  // namespace lockstep
