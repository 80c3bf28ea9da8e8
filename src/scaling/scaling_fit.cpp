#include "scaling/scaling_fit.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace lockstep {
namespace {

constexpr std::array<int, 2> kAsked = {8, 16};

// One point of a curve: how many times as fast n devices are as one.
struct Point {
  int devices = 0;
  double speedup = 0;
  double slowest = 0;  // of its rounds
  double fastest = 0;
};

std::vector<Point> points_of(std::span<const BenchRow> rows, Growth growth, double alone,
                             std::vector<int>& left_out) {
  std::vector<Point> points;
  for (const BenchRow& row : rows) {
    if (!row.what.of_curve || row.what.growth != growth || row.rounds.empty() ||
        row.what.devices < 2)
      continue;
    if (row.too_few_cores) {
      if (std::ranges::find(left_out, row.what.devices) == left_out.end())
        left_out.push_back(row.what.devices);
      continue;
    }
    points.push_back({row.what.devices, row.speedup, row.slowest / alone, row.fastest / alone});
  }
  return points;
}

double ring(int devices) { return 2.0 * (devices - 1) / devices; }

// Shares of a step of one device: what n devices add by what a ring sends and by their number.
struct Terms {
  double traffic = 0;
  double each = 0;
  double speedup(int devices) const {
    return devices / (1 + traffic * ring(devices) + each * (devices - 1));
  }
};

// Least squares over the points, with no term below nothing.
Terms fit_terms(const std::vector<Point>& points, double Point::* speed) {
  double rr = 0;
  double rn = 0;
  double nn = 0;
  double ry = 0;
  double ny = 0;
  for (const Point& point : points) {
    const double more = point.devices / (point.*speed) - 1;  // of a step
    const double r = ring(point.devices);
    const double n = point.devices - 1;
    rr += r * r;
    rn += r * n;
    nn += n * n;
    ry += r * more;
    ny += n * more;
  }
  const double determinant = rr * nn - rn * rn;
  if (points.size() > 1 && determinant > 1e-12) {
    const Terms both{(ry * nn - ny * rn) / determinant, (ny * rr - ry * rn) / determinant};
    if (both.traffic >= 0 && both.each >= 0) return both;
    const Terms traffic{std::max(0.0, ry / rr), 0};
    const Terms each{0, std::max(0.0, ny / nn)};
    return both.each < 0 ? traffic : each;
  }
  return {std::max(0.0, ry / rr), 0};
}

double serial_share(const std::vector<Point>& points, double Point::* speed) {
  double up = 0;
  double down = 0;
  for (const Point& point : points) {
    const double divided = 1 - 1.0 / point.devices;
    up += (1 / (point.*speed) - 1.0 / point.devices) * divided;
    down += divided * divided;
  }
  return std::clamp(up / down, 0.0, 1.0);
}

double amdahl(double serial, int devices) { return 1 / (serial + (1 - serial) / devices); }

// From the least to the most that any of the fits says.
Expected range(int devices, std::initializer_list<double> speedups) {
  return {devices, std::min(speedups), std::max(speedups)};
}

}  // namespace

std::optional<ScalingFit> fit_scaling(std::span<const BenchRow> rows) {
  if (rows.empty() || rows.front().rounds.empty() || rows.front().speed <= 0 ||
      rows.front().what.devices != 1)
    return std::nullopt;
  const BenchRow& alone = rows.front();
  ScalingFit fit;
  fit.alone_ms = alone.step_ms;
  const std::vector<Point> weak = points_of(rows, Growth::weak, alone.speed, fit.left_out);
  const std::vector<Point> strong = points_of(rows, Growth::strong, alone.speed, fit.left_out);
  if (weak.empty() && strong.empty())
    return fit.left_out.empty() ? std::nullopt : std::optional(fit);
  if (!weak.empty()) {
    const Terms middle = fit_terms(weak, &Point::speedup);
    const Terms slow = fit_terms(weak, &Point::slowest);
    const Terms fast = fit_terms(weak, &Point::fastest);
    const bool told_apart = weak.size() > 1;
    fit.traffic_ms = middle.traffic * alone.step_ms;
    if (told_apart) fit.each_ms = middle.each * alone.step_ms;
    for (const int devices : kAsked) {
      // One point: what it lost may grow with every device as well.
      const Terms pessimist{0,
                            slow.traffic * ring(weak.front().devices) / (weak.front().devices - 1)};
      fit.weak.push_back(told_apart
                             ? range(devices, {middle.speedup(devices), slow.speedup(devices),
                                               fast.speedup(devices)})
                             : range(devices, {pessimist.speedup(devices), fast.speedup(devices)}));
    }
  }
  if (!strong.empty()) {
    fit.serial = serial_share(strong, &Point::speedup);
    for (const int devices : kAsked)
      fit.strong.push_back(range(
          devices,
          {amdahl(*fit.serial, devices), amdahl(serial_share(strong, &Point::slowest), devices),
           amdahl(serial_share(strong, &Point::fastest), devices)}));
  }
  return fit;
}

}  // namespace lockstep
