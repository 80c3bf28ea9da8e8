#include "detectors/calibration.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Calibration, NeverTurnsOneOrderIntoAnother) {
  double last = -1;
  for (double weighed = 0; weighed <= 1.0001; weighed += 0.01) {
    EXPECT_GE(calibrated(weighed), last);
    last = calibrated(weighed);
  }
}

TEST(Calibration, LeavesWhatIsNoFindingBelowAHalf) {
  EXPECT_EQ(calibrated(0.45), 0.45);
  EXPECT_EQ(calibrated(0.5), 0.5);
  EXPECT_GT(calibrated(0.75), 0.9);
  EXPECT_LE(calibrated(0.99), 0.99);
}

}  // namespace
}  // namespace lockstep
