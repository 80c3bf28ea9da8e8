#include "render/json/speedscope.hpp"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Each frame's own time is one sample: the frames that lead to it, and as many milliseconds.
class Samples {
 public:
  explicit Samples(double step_ms) : step_ms_(step_ms) {}

  void add(const FlameFrame& frame) {
    Json entry = {{"name", frame.name}};
    if (!frame.file.empty()) {
      entry["file"] = frame.file;
      entry["line"] = frame.line;
    }
    stack_.push_back(frames_.size());
    frames_.push_back(std::move(entry));
    double own = frame.share;
    for (const FlameFrame& below : frame.within) {
      add(below);
      own -= below.share;
    }
    if (own > 0) {
      samples_.push_back(stack_);
      weights_.push_back(own * step_ms_);
    }
    stack_.pop_back();
  }

  Json frames() { return std::move(frames_); }
  Json profile(const std::string& name) {
    return {{"type", "sampled"},
            {"name", name},
            {"unit", "milliseconds"},
            {"startValue", 0},
            {"endValue", step_ms_},
            {"samples", std::move(samples_)},
            {"weights", std::move(weights_)}};
  }

 private:
  double step_ms_;
  std::vector<std::size_t> stack_;
  Json frames_ = Json::array();
  Json samples_ = Json::array();
  Json weights_ = Json::array();
};

}  // namespace

std::string speedscope_json(const FlameGraph& graph, const std::string& name) {
  // Without steps a share of the time is told as so many of 1000 ms.
  Samples samples(graph.step_ms > 0 ? graph.step_ms : 1000);
  samples.add(graph.whole);
  const Json profile = samples.profile((graph.step_ms > 0 ? "a step of " : "a second of ") + name +
                                       ", mean of its ranks");
  return Json{{"$schema", "https://www.speedscope.app/file-format-schema.json"},
              {"exporter", "lockstep"},
              {"name", name},
              {"activeProfileIndex", 0},
              {"shared", {{"frames", samples.frames()}}},
              {"profiles", Json::array({profile})}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace lockstep
