#include "recording/step_detail_lines.hpp"

#include <cmath>
#include <map>
#include <utility>

namespace lockstep {
namespace {

using json_fields::Json;
using json_fields::list_of;
using json_fields::object_of;
using json_fields::take;

// A probe is exact to microseconds.
double to_micro(double ms) { return std::round(ms * 1e3) / 1e3; }

// The places of one step: each is written once and named by its number.
class PlaceTable {
 public:
  int number_of(const std::shared_ptr<const CodePlace>& place) {
    const auto [known, is_new] = numbers_.try_emplace(*place, static_cast<int>(numbers_.size()));
    if (is_new) {
      Json entry = {{"file", place->file}, {"line", place->line}, {"what", place->what}};
      if (place->loop_line != 0) entry["loop_line"] = place->loop_line;
      list_.push_back(std::move(entry));
    }
    return known->second;
  }
  Json take() { return std::move(list_); }

 private:
  std::map<CodePlace, int> numbers_;
  Json list_ = Json::array();
};

Json piece_json(const StepPiece& piece, PlaceTable& places) {
  Json json = {{"part", kStepSpanNames[index_of(piece.part)]},
               {"place", places.number_of(piece.place)},
               {"from_ms", to_micro(piece.from_ms)},
               {"length_ms", to_micro(piece.length_ms)}};
  if (piece.own_ms != piece.length_ms) json["own_ms"] = to_micro(piece.own_ms);
  if (piece.hidden_ms > 0) json["hidden_ms"] = to_micro(piece.hidden_ms);
  if (piece.count != 1) json["count"] = piece.count;
  if (piece.bytes != 0) json["bytes"] = piece.bytes;
  if (piece.subject != 0) json["subject"] = piece.subject;
  if (piece.on_device) json["on_device"] = true;
  if (piece.pageable) json["pageable"] = true;
  if (piece.blocking) json["blocking"] = true;
  return json;
}

Json rest_json(const StepRest& rest, PlaceTable& places) {
  Json json = {{"from_ms", to_micro(rest.from_ms)}, {"length_ms", to_micro(rest.length_ms)}};
  if (rest.after) json["after"] = places.number_of(rest.after);
  if (rest.before) json["before"] = places.number_of(rest.before);
  for (const HostCall& call : rest.calls)
    json["calls"].push_back({{"part", kStepSpanNames[index_of(call.part)]},
                             {"place", places.number_of(call.place)},
                             {"length_ms", to_micro(call.length_ms)}});
  return json;
}

using Places = std::vector<std::shared_ptr<const CodePlace>>;

std::shared_ptr<const CodePlace> place_in(const Json& json, const char* name,
                                          const Places& places) {
  std::size_t number = places.size();
  take(json, name, number);
  return number < places.size() ? places[number] : nullptr;
}

StepPart part_in(const Json& json) {
  std::string name;
  take(json, "part", name);
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (kStepSpanNames[i] == name) return static_cast<StepPart>(i);
  return StepPart::other;
}

StepPiece read_piece(const Json& json, const Places& places) {
  StepPiece piece;
  piece.part = part_in(json);
  piece.place = place_in(json, "place", places);
  take(json, "from_ms", piece.from_ms);
  take(json, "length_ms", piece.length_ms);
  piece.own_ms = piece.length_ms;
  take(json, "own_ms", piece.own_ms);
  take(json, "hidden_ms", piece.hidden_ms);
  take(json, "count", piece.count);
  take(json, "bytes", piece.bytes);
  take(json, "subject", piece.subject);
  take(json, "on_device", piece.on_device);
  take(json, "pageable", piece.pageable);
  take(json, "blocking", piece.blocking);
  return piece;
}

StepRest read_rest(const Json& json, const Places& places) {
  StepRest rest;
  take(json, "from_ms", rest.from_ms);
  take(json, "length_ms", rest.length_ms);
  rest.after = place_in(json, "after", places);
  rest.before = place_in(json, "before", places);
  for (const Json& entry : list_of(json, "calls")) {
    HostCall call{part_in(entry), place_in(entry, "place", places), 0};
    take(entry, "length_ms", call.length_ms);
    if (call.place) rest.calls.push_back(std::move(call));
  }
  return rest;
}

}  // namespace

std::shared_ptr<const CodePlace> PlacePool::keep(CodePlace place) {
  const auto known = kept_.find(place);
  return known != kept_.end()
             ? *known
             : *kept_.insert(std::make_shared<const CodePlace>(std::move(place))).first;
}

Json detail_json(const StepDetail& detail) {
  PlaceTable places;
  Json pieces = Json::array();
  for (const StepPiece& piece : detail.pieces) pieces.push_back(piece_json(piece, places));
  Json rests = Json::array();
  for (const StepRest& rest : detail.rests) rests.push_back(rest_json(rest, places));
  Json looks = Json::array();
  for (const StackLook& look : detail.looks)
    looks.push_back({{"at_ms", to_micro(look.at_ms)},
                     {"weight_ms", to_micro(look.weight_ms)},
                     {"place", places.number_of(look.place)}});
  Json json = {{"places", places.take()}, {"pieces", std::move(pieces)}};
  if (!rests.empty()) json["rests"] = std::move(rests);
  if (!looks.empty()) json["looks"] = std::move(looks);
  return json;
}

std::shared_ptr<const StepDetail> read_detail(std::string_view text, PlacePool& pool) {
  const Json json = object_of(text);
  Places places;
  for (const Json& entry : list_of(json, "places")) {
    CodePlace place;
    take(entry, "file", place.file);
    take(entry, "line", place.line);
    take(entry, "what", place.what);
    take(entry, "loop_line", place.loop_line);
    places.push_back(pool.keep(std::move(place)));
  }
  auto detail = std::make_shared<StepDetail>();
  for (const Json& entry : list_of(json, "pieces"))
    if (StepPiece piece = read_piece(entry, places); piece.place)
      detail->pieces.push_back(std::move(piece));
  for (const Json& entry : list_of(json, "rests"))
    detail->rests.push_back(read_rest(entry, places));
  for (const Json& entry : list_of(json, "looks")) {
    StackLook look;
    take(entry, "at_ms", look.at_ms);
    take(entry, "weight_ms", look.weight_ms);
    look.place = place_in(entry, "place", places);
    if (look.place) detail->looks.push_back(std::move(look));
  }
  return detail;
}

}  // namespace lockstep
