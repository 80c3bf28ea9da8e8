// Work for each number from 0 on, on as many threads as there are cores, up to eight.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

// Below `worth_threads` numbers the caller does it alone. What one of the threads throws is thrown
// here, when all have ended.
template <class Work>
void in_parallel(std::size_t count, std::size_t worth_threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex failing;
  std::exception_ptr failure;
  const auto worker = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    if (count > worth_threads)
      for (unsigned i = 1; i < std::min(8U, std::max(1U, std::thread::hardware_concurrency())); ++i)
        helpers.emplace_back(worker);
    worker();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep
