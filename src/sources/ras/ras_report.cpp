#include "sources/ras/ras_report.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostCommunicators = 100'000;
constexpr int kInProgress = 7;  // ncclInProgress

int number(const Json& json, const char* name, int otherwise) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) return otherwise;
  const auto value = found->get<std::int64_t>();
  return value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max()
             ? static_cast<int>(value)
             : otherwise;
}

bool flag(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

std::string text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

CommunicatorRank rank_of(const Json& json, bool answers) {
  CommunicatorRank rank;
  rank.rank = number(json, "rank", 0);
  rank.host = text(json, "host");
  rank.pid = number(json, "pid", 0);
  if (const int gpu = number(json, "nvml_dev", -1); gpu >= 0) rank.gpu = gpu;
  rank.answers = answers;
  if (const auto status = json.find("status"); status != json.end() && status->is_object()) {
    rank.dead = flag(*status, "considered_dead");
    rank.initialising = number(*status, "init_state", 0) == kInProgress;
    rank.error = number(*status, "async_error", 0);
    rank.aborted = flag(*status, "abort_flag");
  }
  if (const auto counts = json.find("collective_counts");
      counts != json.end() && counts->is_object())
    for (const auto& [operation, count] : counts->items())
      if (count.is_number_integer()) rank.counts[operation] = count.get<std::int64_t>();
  return rank;
}

}  // namespace

std::optional<CommunicatorCensus> parse_ras_json(std::string_view answer) {
  const Json json = Json::parse(answer, nullptr, false);
  if (!json.is_object() || !json.contains("communicators") || !json["communicators"].is_array())
    return std::nullopt;
  CommunicatorCensus census;
  census.nccl_version = text(json, "nccl_version");
  for (const Json& entry : json["communicators"]) {
    if (!entry.is_object() || census.communicators.size() >= kMostCommunicators) continue;
    Communicator communicator;
    communicator.hash = text(entry, "hash");
    if (const std::string second = text(entry, "secondary_hash"); !second.empty())
      communicator.hash += ":" + second;
    communicator.size = number(entry, "size", 0);
    for (const auto& [list, answers] :
         {std::pair("ranks", true), std::pair("missing_ranks", false)})
      if (const auto ranks = entry.find(list); ranks != entry.end() && ranks->is_array())
        for (const Json& rank : *ranks)
          if (rank.is_object()) communicator.ranks.push_back(rank_of(rank, answers));
    std::ranges::stable_sort(
        communicator.ranks,
        [](const CommunicatorRank& a, const CommunicatorRank& b) { return a.rank < b.rank; });
    census.communicators.push_back(std::move(communicator));
  }
  return census;
}

void join_census(CommunicatorCensus& known, CommunicatorCensus newer) {
  if (known.nccl_version.empty()) known.nccl_version = newer.nccl_version;
  for (Communicator& communicator : newer.communicators) {
    const auto same = std::ranges::find_if(known.communicators, [&](const Communicator& other) {
      return other.hash == communicator.hash;
    });
    if (same == known.communicators.end())
      known.communicators.push_back(std::move(communicator));
    else
      *same = std::move(communicator);
  }
}

}  // namespace lockstep
