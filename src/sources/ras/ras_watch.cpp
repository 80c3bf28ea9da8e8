#include "sources/ras/ras_watch.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 3s;
constexpr auto kBetweenAnswers = 2s;
// a communicator is made some seconds after the processes start
constexpr auto kWhileNobodyListens = 3s;

}  // namespace

struct RasWatch::State {
  std::mutex mutex;
  std::condition_variable ended;
  bool end = false;
  bool answered = false;
  std::optional<CommunicatorCensus> newest;
};

RasWatch::RasWatch(RasAddress address) : state_(std::make_shared<State>()) {
  std::thread([state = state_, address = std::move(address)] {
    std::unique_lock lock(state->mutex);
    while (!state->end) {
      lock.unlock();
      auto census = ask_all_ras(address, kPatience);
      lock.lock();
      if (census) {
        state->newest = std::move(*census);
        state->answered = true;
      }
      state->ended.wait_for(lock, census ? kBetweenAnswers : kWhileNobodyListens,
                            [&] { return state->end; });
    }
  }).detach();
}

RasWatch::~RasWatch() {
  const std::lock_guard lock(state_->mutex);
  state_->end = true;
  state_->ended.notify_all();
}

std::optional<CommunicatorCensus> RasWatch::take() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->newest, std::nullopt);
}

bool RasWatch::answered() const {
  const std::lock_guard lock(state_->mutex);
  return state_->answered;
}

}  // namespace lockstep
