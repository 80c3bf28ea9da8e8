// Python stacks by py-spy: its dumps, the calls that say much; tests/end_to_end/outside_test.py has
// the real one.
#include "sources/host/python_stacks.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::string_view kDump = R"([
  {"pid": 7, "thread_name": "pin", "os_thread_id": 9, "frames": [{"name": "loop", "filename": "/x.py", "line": 1}]},
  {"pid": 7, "thread_name": "MainThread", "os_thread_id": 7, "frames": [
    {"name": "log_it", "filename": "/train.py", "line": 31, "locals": null},
    {"name": "<module>", "filename": "/train.py", "line": 80}]}])";

TEST(StackDump, IsThatOfTheMainThreadInnermostFirst) {
  const auto frames = parse_dump(kDump, 7);
  ASSERT_TRUE(frames);
  ASSERT_EQ(frames->size(), 2U);
  EXPECT_EQ(frames->front(), (CodeFrame{"log_it", "/train.py", 31}));
}

TEST(StackDump, OfAContainerIsKnownByTheThreadsName) {
  const auto frames = parse_dump(kDump, 4242);
  ASSERT_TRUE(frames);
  EXPECT_EQ(frames->front().function, "log_it");
}

TEST(StackDump, OfWordsOrAnotherShapeIsNone) {
  for (const char* const text :
       {"", "Error: Failed to open process", "{}", "[]", "[1,2]", R"([{"frames":7}])",
        R"([{"thread_name":"MainThread","frames":[]}])"})
    EXPECT_FALSE(parse_dump(text, 7)) << text;
}

TEST(TellingCall, IsFoundInALine) {
  EXPECT_EQ(telling_call("        loss_value = loss.item()"), ".item");
  EXPECT_EQ(telling_call("gc.collect()"), "gc.collect");
  EXPECT_EQ(telling_call("    time.sleep(0.05)"), "time.sleep");
  EXPECT_EQ(telling_call("x = model(y)"), "");
  EXPECT_EQ(telling_call("# gc.collect()"), "") << "a comment";
}

}  // namespace
}  // namespace lockstep
