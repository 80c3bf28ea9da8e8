#include "capture/kineto_messages.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace lockstep {
namespace {

// Native byte order: both ends are on one machine.
struct Header {
  std::uint64_t size;
  std::array<char, 32> type;
};
static_assert(sizeof(Header) == 40);

constexpr std::string_view kRequest = "req";
constexpr std::int32_t kMostAncestors = 1024;

template <class T>
T take(std::string_view& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

}  // namespace

std::optional<KinetoRequest> parse_request(std::string_view datagram) {
  if (datagram.size() < sizeof(Header)) return std::nullopt;
  const Header header = take<Header>(datagram);
  const std::string_view type(header.type.data(),
                              ::strnlen(header.type.data(), header.type.size()));
  constexpr std::size_t kFixed = 2 * sizeof(std::int32_t) + sizeof(std::int64_t);
  if (type != kRequest || header.size != datagram.size() || datagram.size() < kFixed)
    return std::nullopt;
  KinetoRequest request;
  request.kinds = take<std::int32_t>(datagram);
  const auto count = take<std::int32_t>(datagram);
  request.job = take<std::int64_t>(datagram);
  if (count < 1 || count > kMostAncestors ||
      datagram.size() < static_cast<std::size_t>(count) * sizeof(std::int32_t))
    return std::nullopt;
  for (std::int32_t i = 0; i < count; ++i) request.pids.push_back(take<std::int32_t>(datagram));
  return request;
}

std::string answer_of(std::string_view configuration) {
  Header header{configuration.size(), {}};
  std::memcpy(header.type.data(), kRequest.data(), kRequest.size());
  std::string answer(sizeof(Header), '\0');
  std::memcpy(answer.data(), &header, sizeof(Header));
  answer += configuration;
  return answer;
}

std::string configuration_of(const TraceOrder& order) {
  std::string text = fmt::format(
      "ACTIVITIES_LOG_FILE={}\nPROFILE_START_TIME={}\nACTIVITIES_DURATION_MSECS={}\nACTIVITIES_"
      "WARMUP_PERIOD_SECS=0\n",
      order.file, order.start ? order.start->count() : 0, order.duration.count());
  if (order.stacks) text += "PROFILE_WITH_STACK=true\n";
  return text;
}

std::string file_of_process(const std::string& file, int pid) {
  const auto ending = file.rfind(".json");
  if (ending == std::string::npos) return fmt::format("{}_{}", file, pid);
  return fmt::format("{}_{}{}", file.substr(0, ending), pid, file.substr(ending));
}

}  // namespace lockstep
