// Machines that meet by torch's own rendezvous: c10d, and any mix with torchrun. A helper in the
// user's Python runs torch's handler and rank assignment, hosts the store, and speaks JSON lines
// with the launcher. It costs an `import torch`, and is started only where it is asked for.
#pragma once

#include <memory>

#include "launch/rendezvous/meeting.hpp"

namespace lockstep {

Result<std::unique_ptr<Meeting>> start_torch_meeting(const LaunchSettings& settings,
                                                     int local_ranks, const std::string& python,
                                                     const Endpoint& endpoint);

}  // namespace lockstep
