// Means, quantiles and correlations over values of which some may be unknown (NaN).
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
inline bool known(double value) { return !std::isnan(value); }
bool any_known(std::span<const double> values);

std::optional<double> mean_of(std::span<const double> values);
// 0 the smallest, 0.5 the median, 1 the largest; unknown values do not count.
std::optional<double> quantile(std::span<const double> values, double share);
std::optional<double> median_of(std::span<const double> values);
double variance_of(std::span<const double> values);  // 0 of less than two
// Pearson's, over the moments at which both are known; 0 when one of them never changes.
double correlation(std::span<const double> a, std::span<const double> b);

}  // namespace lockstep
