// Python stacks by py-spy: what it prints, the calls that say much;
// tests/end_to_end/outside_test.py has the real one.
#include "sources/host/python_stacks.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// What `py-spy record --format chrometrace --threads` prints: words, then one line of events. The
// main thread logs for two samples of 50 ms, then trains.
constexpr std::string_view kWindow =
    R"(py-spy> Sampling process 20 times a second for 1 seconds. Press Control-C to exit.

[{"args":{"filename":"","line":0},"cat":"py-spy","name":"thread (9): pin","ph":"B","pid":7,"tid":1,"ts":20000},{"args":{"filename":"/x.py","line":1},"cat":"py-spy","name":"loop","ph":"B","pid":7,"tid":1,"ts":20000},{"args":{"filename":"","line":0},"cat":"py-spy","name":"thread (7): MainThread","ph":"B","pid":7,"tid":2,"ts":20010},{"args":{"filename":"/train.py","line":80},"cat":"py-spy","name":"<module>","ph":"B","pid":7,"tid":2,"ts":20010},{"args":{"filename":"/train.py","line":31},"cat":"py-spy","name":"log_it","ph":"B","pid":7,"tid":2,"ts":20010},{"args":{"filename":"/train.py","line":31},"cat":"py-spy","name":"log_it","ph":"E","pid":7,"tid":2,"ts":120900},{"args":{"filename":"/torch/nn/modules/module.py","line":9},"cat":"py-spy","name":"Module._call_impl","ph":"B","pid":7,"tid":2,"ts":120900},{"args":{"filename":"/train.py","line":12},"cat":"py-spy","name":"forward","ph":"B","pid":7,"tid":2,"ts":120900},{"args":{"filename":"/train.py","line":12},"cat":"py-spy","name":"forward","ph":"E","pid":7,"tid":2,"ts":171000},{"args":{"filename":"/torch/nn/modules/module.py","line":9},"cat":"py-spy","name":"Module._call_impl","ph":"E","pid":7,"tid":2,"ts":171000},{"args":{"filename":"/train.py","line":80},"cat":"py-spy","name":"<module>","ph":"E","pid":7,"tid":2,"ts":171000},{"args":{"filename":"","line":0},"cat":"py-spy","name":"thread (7): MainThread","ph":"E","pid":7,"tid":2,"ts":171000}]
py-spy> Wrote chrome trace to '/dev/fd/3'. Samples: 6 Errors: 0
)";

TEST(StackWindow, HasTheMainThreadsSamplesInnermostFirst) {
  const auto stacks = parse_window(kWindow, 7, 20);
  ASSERT_TRUE(stacks);
  ASSERT_EQ(stacks->size(), 2U);
  EXPECT_EQ(stacks->front().frames,
            (std::vector<CodeFrame>{{"log_it", "/train.py", 31}, {"<module>", "/train.py", 80}}));
  EXPECT_NEAR(stacks->front().t_ms, 20.01, 0.001);
  EXPECT_EQ(stacks->front().seen, 2) << "a stack that stays makes no events";
  EXPECT_EQ(stacks->back().frames,
            (std::vector<CodeFrame>{{"forward", "/train.py", 12}, {"<module>", "/train.py", 80}}))
      << "PyTorch's way to forward() is left out";
  EXPECT_EQ(stacks->back().seen, 1);
}

TEST(StackWindow, OfAContainerIsKnownByTheThreadsName) {
  const auto stacks = parse_window(kWindow, 4242, 20);
  ASSERT_TRUE(stacks);
  EXPECT_EQ(stacks->front().frames.front().function, "log_it");
}

TEST(StackWindow, OfWordsOrAnotherShapeIsNone) {
  for (const char* const text :
       {"", "Error: Failed to open process", "{}", "[]", "[{]", "[{},7]",
        R"([{"ph":"B","tid":2,"ts":1,"name":"thread (7): MainThread","args":7}])",
        R"([{"ph":"E","tid":2,"ts":1,"name":"thread (7): MainThread","args":{}}])"})
    EXPECT_FALSE(parse_window(text, 7, 20)) << text;
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
