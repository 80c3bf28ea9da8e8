#include "render/words/flame_tree.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "render/html/flame_svg.hpp"
#include "render/json/speedscope.hpp"
#include "render/words/device_words.hpp"

namespace lockstep {
namespace {

PlaceSignals place(StepPart part, CodePlace where, double share) {
  PlaceSignals signals;
  signals.part = part;
  signals.place = std::move(where);
  signals.share = share;
  return signals;
}

// A fifth waits for data, half is forward, the rest the user's own code in two lines of score().
StepSignals steps() {
  StepSignals signals;
  signals.count = 10;
  signals.wall_ms = 500;
  signals.share[index_of(StepPart::data_wait)] = 0.2;
  signals.share[index_of(StepPart::forward)] = 0.5;
  signals.share[index_of(StepPart::other)] = 0.3;
  signals.places = {
      place(StepPart::forward, {"/home/ada/train.py", 30, "forward", 0}, 0.5),
      place(StepPart::data_wait, {"/home/ada/train.py", 28, "DataLoader", 0}, 0.2),
      place(StepPart::other, {"/home/ada/train.py", 11, "score", 34}, 0.15),
      place(StepPart::other, {"/home/ada/train.py", 10, "numpy:sort<score", 34}, 0.1)};
  return signals;
}

const FlameFrame& below(const FlameFrame& frame, const std::string& name) {
  const auto found = std::ranges::find(frame.within, name, &FlameFrame::name);
  if (found == frame.within.end()) throw std::out_of_range(frame.name + " has no " + name);
  return *found;
}

TEST(FlameTree, GoesFromPartsByTheLoopsLineAndFunctionsToLines) {
  const FlameFrame whole = flame_graph(steps()).whole;

  const FlameFrame& score = below(below(below(whole, "other"), "train.py:34"), "score");
  EXPECT_NEAR(score.share, 0.25, 1e-9);
  EXPECT_EQ(score.within.front().name, "train.py:11") << "the costliest first";
  EXPECT_EQ(below(below(score, "train.py:10"), "numpy:sort").share, 0.1);
  EXPECT_EQ(below(below(whole, "forward"), "train.py:30").file, "/home/ada/train.py");
  EXPECT_EQ(whole.within.front().name, "forward");
}

TEST(FlameTree, WithoutLinesHasPartsAlone) {
  StepSignals without = steps();
  without.places.clear();

  EXPECT_EQ(depth_of(flame_graph(without).whole), 2U);
}

StackProfile stacks() {
  const CodeFrame main{"main", "/home/ada/train.py", 90};
  StackProfile profile;
  profile.samples = 40;
  profile.processes = 2;
  profile.stacks = {{StepPart::data_wait,
                     {"/home/ada/train.py", 10, "get_batch", 0},
                     {main, {"get_batch", "/home/ada/train.py", 10}},
                     0.75},
                    {StepPart::other,
                     {"/home/ada/train.py", 20, "score", 0},
                     {main, {"score", "/home/ada/train.py", 20}},
                     0.25}};
  return profile;
}

TEST(FlameTree, OfStacksFromOutsideHasNoMilliseconds) {
  const FlameGraph graph = flame_graph(stacks());

  EXPECT_EQ(graph.step_ms, 0);
  const FlameFrame& main = below(below(graph.whole, "data wait"), "main train.py:90");
  EXPECT_NEAR(below(main, "get_batch train.py:10").share, 0.75, 1e-9);
  const std::string svg = flame_svg(graph);
  EXPECT_NE(svg.find("get_batch train.py:10: 75.0 %, /home/ada/train.py:10"), std::string::npos);
  EXPECT_EQ(svg.find("a step"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("per step"), std::string::npos) << svg;
}

TEST(StackTable, NamesTheLinesByTheirShareOfTheTime) {
  Report report;
  report.stacks = stacks();
  const std::vector<WordTable> tables = device_tables(report);

  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].title,
            "where the main threads' Python code was, in 40 stacks of 2 processes");
  ASSERT_EQ(tables[0].rows.size(), 2U);
  EXPECT_EQ(tables[0].rows[0],
            (std::vector<std::string>{"/home/ada/train.py:10  get_batch", "data wait", "75 %"}));
  report.steps = steps();
  EXPECT_TRUE(device_tables(report).empty()) << "probes know each step";
}

TEST(FlameSvg, SaysMillisecondsAndPlacesAndEscapesThem) {
  StepSignals odd = steps();
  odd.places.front().place.what = "<b>\"&";
  const std::string svg = flame_svg(flame_graph(odd));

  EXPECT_NE(svg.find("score: 25.0 %, 12.5 ms per step"), std::string::npos) << svg;
  EXPECT_NE(svg.find("/home/ada/train.py:11"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(Speedscope, HasEveryMillisecondOfTheStepOnce) {
  const auto json = nlohmann::json::parse(speedscope_json(flame_graph(steps()), "train.py"));

  const auto& profile = json["profiles"][0];
  double sum = 0;
  for (const auto& weight : profile["weights"]) sum += weight.get<double>();
  EXPECT_NEAR(sum, 50, 1e-6);
  EXPECT_EQ(profile["samples"].size(), profile["weights"].size());
  for (const auto& stack : profile["samples"])
    for (const auto& frame : stack)
      EXPECT_LT(frame.get<std::size_t>(), json["shared"]["frames"].size());
}

}  // namespace
}  // namespace lockstep
