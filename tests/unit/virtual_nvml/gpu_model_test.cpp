#include "virtual_nvml/gpu_model.hpp"

#include <gtest/gtest.h>

#include "lockstep/virtual_driver.hpp"

namespace lockstep {
namespace {

TEST(GpuModel, IsAskedForByNumberAndName) {
  const auto plain = parse_virtual_request("2");
  const auto named = parse_virtual_request("4xRTX-3090");

  ASSERT_TRUE(plain && named);
  EXPECT_EQ(plain->count, 2);
  EXPECT_EQ(plain->model, &gpu_models().front());
  EXPECT_EQ(named->count, 4);
  ASSERT_NE(named->model, nullptr);
  EXPECT_EQ(named->model->busy_window.count(), 1000);
  EXPECT_EQ(named->model->power_sample.count(), 0) << "no buffer of power samples";
  EXPECT_FALSE(parse_virtual_request("run.jsonl"));
  EXPECT_EQ(parse_virtual_request("2xVoodoo")->model, nullptr);
}

TEST(GpuModel, HasARowForEachNameThatIsOffered) {
  ASSERT_EQ(gpu_models().size(), kVirtualModels.size());
  for (std::size_t i = 0; i < kVirtualModels.size(); ++i)
    EXPECT_EQ(gpu_models()[i].name, kVirtualModels[i]);
}

}  // namespace
}  // namespace lockstep
