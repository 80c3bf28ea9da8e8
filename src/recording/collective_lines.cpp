#include "recording/collective_lines.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "recording/json_fields.hpp"

namespace lockstep {
namespace {

using json_fields::Json;
using json_fields::list_of;
using json_fields::object_of;
using json_fields::take;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string collective_json(const CollectiveCall& call) {
  Json json = {{"pid", call.pid},
               {"rank", call.rank},
               {"communicator", call.communicator},
               {"sequence", call.sequence},
               {"operation", call.operation},
               {"called_ms", call.called_ms},
               {"queued_ms", call.queued_ms},
               {"bytes", call.bytes},
               {"place", call.place},
               {"size", call.size},
               {"nodes", call.nodes},
               {"channels", call.channels}};
  if (call.begin_ms && call.end_ms) {
    json["begin_ms"] = *call.begin_ms;
    json["end_ms"] = *call.end_ms;
  }
  if (!call.algorithm.empty()) json["algorithm"] = call.algorithm;
  if (!call.protocol.empty()) json["protocol"] = call.protocol;
  if (call.captured) json["captured"] = true;
  if (call.to_one_peer) json["to_one_peer"] = true;
  return text_of(json);
}

CollectiveCall read_collective(std::string_view text) {
  const Json json = object_of(text);
  CollectiveCall call;
  take(json, "pid", call.pid);
  take(json, "rank", call.rank);
  take(json, "communicator", call.communicator);
  take(json, "sequence", call.sequence);
  take(json, "operation", call.operation);
  take(json, "called_ms", call.called_ms);
  take(json, "queued_ms", call.queued_ms);
  take(json, "begin_ms", call.begin_ms);
  take(json, "end_ms", call.end_ms);
  take(json, "bytes", call.bytes);
  take(json, "place", call.place);
  take(json, "size", call.size);
  take(json, "nodes", call.nodes);
  take(json, "channels", call.channels);
  take(json, "algorithm", call.algorithm);
  take(json, "protocol", call.protocol);
  take(json, "captured", call.captured);
  take(json, "to_one_peer", call.to_one_peer);
  if (!call.begin_ms || !call.end_ms) call.begin_ms = call.end_ms = std::nullopt;
  return call;
}

std::string census_json(const CommunicatorCensus& census, const WriterOptions& options) {
  Json communicators = Json::array();
  for (const Communicator& communicator : census.communicators) {
    Json ranks = Json::array();
    for (const CommunicatorRank& rank : communicator.ranks) {
      Json entry = {{"rank", rank.rank}, {"pid", rank.pid}, {"counts", rank.counts}};
      if (options.redaction != Redaction::commands_and_host) entry["host"] = rank.host;
      if (rank.gpu) entry["gpu"] = *rank.gpu;
      if (!rank.answers) entry["answers"] = false;
      if (rank.dead) entry["dead"] = true;
      if (rank.initialising) entry["initialising"] = true;
      if (rank.aborted) entry["aborted"] = true;
      if (rank.error != 0) entry["error"] = rank.error;
      ranks.push_back(std::move(entry));
    }
    communicators.push_back(
        {{"hash", communicator.hash}, {"size", communicator.size}, {"ranks", std::move(ranks)}});
  }
  return text_of(
      {{"nccl_version", census.nccl_version}, {"communicators", std::move(communicators)}});
}

CommunicatorCensus read_census(std::string_view text) {
  const Json json = object_of(text);
  CommunicatorCensus census;
  take(json, "nccl_version", census.nccl_version);
  for (const Json& entry : list_of(json, "communicators")) {
    Communicator communicator;
    take(entry, "hash", communicator.hash);
    take(entry, "size", communicator.size);
    for (const Json& of_rank : list_of(entry, "ranks")) {
      CommunicatorRank rank;
      take(of_rank, "rank", rank.rank);
      take(of_rank, "pid", rank.pid);
      take(of_rank, "host", rank.host);
      take(of_rank, "gpu", rank.gpu);
      take(of_rank, "answers", rank.answers);
      take(of_rank, "dead", rank.dead);
      take(of_rank, "initialising", rank.initialising);
      take(of_rank, "aborted", rank.aborted);
      take(of_rank, "error", rank.error);
      if (const auto counts = of_rank.find("counts");
          counts != of_rank.end() && counts->is_object())
        for (const auto& [operation, count] : counts->items())
          take(*counts, operation.c_str(), rank.counts[operation]);
      communicator.ranks.push_back(std::move(rank));
    }
    census.communicators.push_back(std::move(communicator));
  }
  return census;
}

}  // namespace lockstep
