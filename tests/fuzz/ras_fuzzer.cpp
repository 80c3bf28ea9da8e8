// What listens at RAS's port may be anybody: its answers, and what signals make of them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "signals/communicators.hpp"
#include "sources/ras/ras_client.hpp"
#include "sources/ras/ras_report.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lockstep::ras_address(std::string(text));
  const auto census = lockstep::parse_ras_json(text);
  if (!census) return 0;
  lockstep::CommunicatorCensus joined = *census;
  lockstep::join_census(joined, *census);
  lockstep::communicator_signals({{0, *census}, {20'000, joined}}, {});
  return 0;
}
