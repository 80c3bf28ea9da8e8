// The second rung's numbers in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/device_signals.hpp"

namespace lockstep {

nlohmann::ordered_json devices_json(const DeviceSignals& devices);
nlohmann::ordered_json collectives_json(const CollectiveSignals& collectives);
nlohmann::ordered_json communicators_json(const CommunicatorSignals& communicators);

}  // namespace lockstep
