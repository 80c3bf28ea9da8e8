// Asks RAS now and then on a thread of its own, so that nobody waits for ranks that do not answer.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/collective.hpp"
#include "sources/ras/ras_client.hpp"

namespace lockstep {

class RasWatch {
 public:
  explicit RasWatch(RasAddress address);
  ~RasWatch();
  RasWatch(const RasWatch&) = delete;
  RasWatch& operator=(const RasWatch&) = delete;

  // The newest answer since the last call.
  std::optional<CommunicatorCensus> take();
  bool answered() const;

 private:
  struct State;
  // the thread's too: an answer that is waited for must not hold up the end
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
