#include "signals/statistics.hpp"

#include <algorithm>

namespace lockstep {

bool any_known(std::span<const double> values) { return std::ranges::any_of(values, known); }

std::optional<double> mean_of(std::span<const double> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!known(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

std::optional<double> quantile(std::span<const double> values, double share) {
  // Of a very long series every so many-th value tells a quantile as well: 0.3 % at the median of
  // 50 000.
  constexpr std::size_t kEnough = 50'000;
  const std::size_t stride =
      share > 0 && share < 1 ? std::max<std::size_t>(1, values.size() / kEnough) : 1;
  std::vector<double> kept;
  kept.reserve(values.size() / stride + 1);
  for (std::size_t i = 0; i < values.size(); i += stride)
    if (known(values[i])) kept.push_back(values[i]);
  if (kept.empty()) return std::nullopt;
  const auto place =
      static_cast<std::size_t>(std::lround(share * static_cast<double>(kept.size() - 1)));
  const auto at = kept.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(kept.begin(), at, kept.end());
  return *at;
}

std::optional<double> median_of(std::span<const double> values) { return quantile(values, 0.5); }

double variance_of(std::span<const double> values) {
  const auto mean = mean_of(values);
  if (!mean) return 0;
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!known(value)) continue;
    sum += (value - *mean) * (value - *mean);
    ++count;
  }
  return count < 2 ? 0 : sum / static_cast<double>(count);
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const std::size_t size = std::min(a.size(), b.size());
  double sum_a = 0;
  double sum_b = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (!known(a[i]) || !known(b[i])) continue;
    sum_a += a[i];
    sum_b += b[i];
    ++count;
  }
  if (count < 3) return 0;
  const double mean_a = sum_a / static_cast<double>(count);
  const double mean_b = sum_b / static_cast<double>(count);
  double both = 0;
  double only_a = 0;
  double only_b = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (!known(a[i]) || !known(b[i])) continue;
    both += (a[i] - mean_a) * (b[i] - mean_b);
    only_a += (a[i] - mean_a) * (a[i] - mean_a);
    only_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return only_a <= 0 || only_b <= 0 ? 0 : both / std::sqrt(only_a * only_b);
}

}  // namespace lockstep
