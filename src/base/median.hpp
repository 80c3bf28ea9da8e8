// What lies in the middle of figures of which one may be far out. 0 of none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep {

// One of the values themselves: the upper one where two lie in the middle.
inline double middle_value(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The mean of the two where two lie in the middle.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lockstep
