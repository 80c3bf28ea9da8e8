#include "launch/logs/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

// What stands behind a word, to the next blank.
std::string word_after(std::string_view line, std::string_view mark) {
  const auto at = line.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = trim(line.substr(at + mark.size()));
  return std::string(rest.substr(0, rest.find_first_of(" \t\r")));
}

// "P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/0/GDRDMA": the first two parts tell the path.
std::string path_of(const std::string& via) {
  const auto first = via.find('/');
  const auto second = first == std::string::npos ? first : via.find('/', first + 1);
  return via.substr(0, second);
}

void read_channel(std::string_view line, NcclFacts& facts) {
  if (line.find("->") != std::string_view::npos) {
    if (const std::string via = word_after(line, " via "); !via.empty())
      ++facts.transports[path_of(via)];
    return;
  }
  // "Channel 00/02 :    0   1": a ring, told by its first rank.
  const auto colon = line.find(" : ");
  const auto slash = line.find('/', line.find("Channel "));
  if (colon == std::string_view::npos || slash == std::string_view::npos || slash > colon) return;
  const auto channels = parse_integer(trim(line.substr(slash + 1, colon - slash - 1)));
  if (!channels) return;
  facts.channels = std::max(facts.channels, static_cast<int>(*channels));
  if (line.find("Channel 00/") == std::string_view::npos || !facts.ring.empty()) return;
  for (const std::string_view rank : split(line.substr(colon + 3), ' '))
    if (!trim(rank).empty())
      facts.ring += (facts.ring.empty() ? "" : " ") + std::string(trim(rank));
}

}  // namespace

void read_nccl_log(std::string_view text, NcclFacts& facts) {
  for (const std::string_view line : split(text, '\n')) {
    if (const auto warning = line.find("NCCL WARN "); warning != std::string_view::npos) {
      const std::string words(trim(line.substr(warning + 10)));
      if (std::ranges::find(facts.warnings, words) == facts.warnings.end() &&
          facts.warnings.size() < 5)
        facts.warnings.push_back(words);
      continue;
    }
    if (facts.version.empty()) facts.version = word_after(line, "NCCL version ");
    if (facts.network.empty()) facts.network = word_after(line, "Using network ");
    for (const char* name : {" nranks ", " nRanks "})
      if (const auto ranks = parse_integer(word_after(line, name));
          ranks && line.find("comm ") != std::string_view::npos)
        facts.world_sizes.insert(static_cast<int>(*ranks));
    if (line.find("NCCL INFO Channel ") != std::string_view::npos)
      read_channel(line.substr(line.find("Channel ")), facts);
  }
}

std::string in_words(const NcclFacts& facts) {
  if (facts.version.empty() && facts.world_sizes.empty() && facts.transports.empty()) return {};
  std::string words = fmt::format(
      "NCCL {}", facts.version.empty() ? "of unknown version" : printable(facts.version));
  std::vector<std::string> sizes;
  for (const int size : facts.world_sizes) sizes.push_back(std::to_string(size));
  if (!sizes.empty())
    words += fmt::format(", communicators of {} rank{}", join(sizes, ", "),
                         sizes == std::vector<std::string>{"1"} ? "" : "s");
  if (facts.channels > 0) words += fmt::format(", {} channels", facts.channels);
  if (!facts.network.empty()) words += fmt::format(", network {}", printable(facts.network));
  std::vector<std::string> paths;
  for (const auto& [path, count] : facts.transports)
    paths.push_back(fmt::format("{} ({})", printable(path), count));
  if (!paths.empty()) words += fmt::format("\n  between ranks: {}", join(paths, ", "));
  if (!facts.ring.empty()) words += fmt::format("\n  ring: {}", printable(facts.ring));
  for (const std::string& warning : facts.warnings)
    words += fmt::format("\n  warns: {}", printable(warning.substr(0, 200)));
  const bool by_host = std::ranges::any_of(
      facts.transports, [](const auto& entry) { return entry.first.starts_with("SHM"); });
  if (by_host) words += "\n  SHM goes through host memory: lockstep explain C405";
  return words;
}

}  // namespace lockstep
