// The pieces of a step and their lines of code in a recording: writer and reader beside each other.
#pragma once

#include <memory>
#include <set>
#include <string_view>

#include "lockstep/record.hpp"
#include "recording/json_fields.hpp"

namespace lockstep {

// Steps come from the same lines of code again and again: each line is kept once, so that places
// are the same where their addresses are.
class PlacePool {
 public:
  std::shared_ptr<const CodePlace> keep(CodePlace place);

 private:
  struct ByContent {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return content(a) < content(b); }
    static const CodePlace& content(const CodePlace& place) { return place; }
    static const CodePlace& content(const std::shared_ptr<const CodePlace>& place) {
      return *place;
    }
  };
  std::set<std::shared_ptr<const CodePlace>, ByContent> kept_;
};

json_fields::Json detail_json(const StepDetail& detail);

// Fields of another type than expected are as if they were not there; what names no place is left
// out.
std::shared_ptr<const StepDetail> read_detail(std::string_view json, PlacePool& places);

}  // namespace lockstep
