#include "detectors/calibration.hpp"

#include <array>

namespace lockstep {
namespace {

struct Point {
  double weighed;
  double right;
};
constexpr std::array<Point, 6> kPoints = {
    {{0.58, 0.58}, {0.6, 0.9}, {0.7, 0.92}, {0.8, 0.94}, {0.9, 0.95}, {0.99, 0.99}}};

}  // namespace

double calibrated(double weighed) {
  if (weighed <= kPoints.front().weighed || weighed >= kPoints.back().weighed) return weighed;
  for (std::size_t i = 1; i < kPoints.size(); ++i) {
    const Point& from = kPoints[i - 1];
    const Point& to = kPoints[i];
    if (weighed > to.weighed) continue;
    const double way = (weighed - from.weighed) / (to.weighed - from.weighed);
    return from.right + way * (to.right - from.right);
  }
  return weighed;
}

}  // namespace lockstep
