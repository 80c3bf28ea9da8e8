#include "render/words/flame_tree.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "render/html/flame_svg.hpp"
#include "render/json/speedscope.hpp"

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
  const FlameFrame whole = flame_tree(steps());

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

  EXPECT_EQ(depth_of(flame_tree(without)), 2U);
}

TEST(FlameSvg, SaysMillisecondsAndPlacesAndEscapesThem) {
  StepSignals odd = steps();
  odd.places.front().place.what = "<b>\"&";
  const std::string svg = flame_svg(odd);

  EXPECT_NE(svg.find("score: 25.0 %, 12.5 ms a step"), std::string::npos) << svg;
  EXPECT_NE(svg.find("/home/ada/train.py:11"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(Speedscope, HasEveryMillisecondOfTheStepOnce) {
  const auto json = nlohmann::json::parse(speedscope_json(steps(), "train.py"));

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
