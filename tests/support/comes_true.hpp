// Waits until something is so.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::testing {

template <class Condition>
bool comes_true_within(std::chrono::milliseconds at_most, const Condition& condition) {
  constexpr std::chrono::milliseconds kLookEvery(10);
  for (std::chrono::milliseconds waited(0); waited < at_most; waited += kLookEvery) {
    if (condition()) return true;
    std::this_thread::sleep_for(kLookEvery);
  }
  return false;
}

}  // namespace lockstep::testing
