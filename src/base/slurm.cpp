#include "base/slurm.hpp"

namespace lockstep {

std::string first_host(const std::string& node_list) {
  const auto bracket = node_list.find('[');
  const auto comma = node_list.find(',');
  if (bracket == std::string::npos || (comma != std::string::npos && comma < bracket))
    return node_list.substr(0, comma);
  const auto end = node_list.find_first_of(",-]", bracket);
  if (end == std::string::npos) return {};
  const auto close = node_list.find(']', bracket);
  if (close == std::string::npos) return {};
  const auto after = node_list.find(',', close);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1) +
         node_list.substr(close + 1,
                          after == std::string::npos ? std::string::npos : after - close - 1);
}

int port_of_job(std::int64_t job) {
  constexpr int kFirst = 20'000;
  constexpr int kPorts = 5'000;
  return kFirst + 2 * static_cast<int>(job % kPorts);
}

}  // namespace lockstep
