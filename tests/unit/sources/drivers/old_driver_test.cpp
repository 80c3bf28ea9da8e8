#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/nvml/poller.hpp"

#include "support/paths.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(Driver, ThatIsTooOldIsNamedWithWhatItLacks) {
  PollerOptions options;
  options.session.library = testing::test_tool("libold_driver.so");

  const auto poller = Poller::start(options);

  ASSERT_FALSE(poller);
  EXPECT_THAT(poller.error().what, HasSubstr("too old"));
  EXPECT_THAT(poller.error().what, HasSubstr("nvmlDeviceGetHandleByIndex_v2"));
  EXPECT_THAT(poller.error().next, HasSubstr("update the driver"));
}

TEST(Driver, ThatIsAbsentIsAnErrorWithTheWayToVirtualGpus) {
  PollerOptions options;
  options.session.library = "/no/such/libnvidia-ml.so.1";

  const auto poller = Poller::start(options);

  ASSERT_FALSE(poller);
  EXPECT_THAT(poller.error().what, HasSubstr("cannot read GPU counters"));
  EXPECT_THAT(poller.error().next, HasSubstr("virtual:2"));
}

}  // namespace
}  // namespace lockstep
