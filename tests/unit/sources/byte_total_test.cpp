#include "sources/nvml/byte_total.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Width = ByteTotal::Width;

TEST(ByteTotal, GrowsThroughTheWrapOfANarrowCounter) {
  ByteTotal total;
  total.read(4'294'967'000, Width::bits_32, 1);

  EXPECT_EQ(total.read(1'000, Width::bits_32, 1), 4'294'967'000ULL + 296 + 1'000);
}

TEST(ByteTotal, CountsInTheCountersUnit) {
  ByteTotal total;
  total.read(10, Width::bits_64, 1024);

  EXPECT_EQ(total.read(12, Width::bits_64, 1024), 12U * 1024);
}

TEST(ByteTotal, AddsWhatARateMovedAndNothingAbsurd) {
  ByteTotal total;

  EXPECT_EQ(total.add(1e9), 1'000'000'000U);
  EXPECT_EQ(total.add(-5), 1'000'000'000U);
  EXPECT_EQ(total.add(0.0 / 0.0), 1'000'000'000U);
}

}  // namespace
}  // namespace lockstep
