// Skips a test whose real data is not on this machine, and says so.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#define SKIP_WITHOUT_DATA(path)       \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << "no real data at " << (path) << ": set LOCKSTEP_TEST_DATA to their folder"
