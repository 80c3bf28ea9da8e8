#include "model/board_power.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(BoardPower, IsThatOfTheCardInTheDriversName) {
  EXPECT_EQ(board_power_mw("NVIDIA H200"), 700'000);
  EXPECT_EQ(board_power_mw("NVIDIA H100 80GB HBM3"), 700'000);
  EXPECT_EQ(board_power_mw("NVIDIA H100 PCIe"), 350'000);
  EXPECT_EQ(board_power_mw("NVIDIA A100-SXM4-80GB"), 400'000);
  EXPECT_EQ(board_power_mw("NVIDIA A100-PCIE-40GB"), 250'000);
  EXPECT_EQ(board_power_mw("NVIDIA A10"), 150'000) << "not an A100's";
  EXPECT_EQ(board_power_mw("NVIDIA L4"), 72'000) << "not an L40's";
  EXPECT_EQ(board_power_mw("NVIDIA GeForce RTX 3090"), 350'000);
  EXPECT_EQ(board_power_mw("NVIDIA GeForce RTX 3090 Ti"), 450'000);
  EXPECT_EQ(board_power_mw("Tesla V100-SXM2-32GB"), 300'000);
}

TEST(BoardPower, IsNotKnownOfLaptopsAndStrangers) {
  EXPECT_FALSE(board_power_mw("NVIDIA GeForce RTX 4090 Laptop GPU"));
  EXPECT_FALSE(board_power_mw("AMD Instinct MI300X"));
  EXPECT_FALSE(board_power_mw(""));
}

}  // namespace
}  // namespace lockstep
