// Any text as a model's config.json, a safetensors header, a machine or a count: an error or a
// plan, never a crash.
#include <cstddef>
#include <cstdint>
#include <string>

#include "plan/machine_words.hpp"
#include "plan/make_plan.hpp"
#include "plan/read_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
    case 1: {
      auto net =
          data[0] % 4 == 0 ? model_from_config(text, "fuzz") : model_from_safetensors(text, "fuzz");
      if (!net) return 0;
      PlanRequest request;
      request.machine = machine_from({.gpus = "2xA100-80GB"}, {}, 8, 1e11)->machine;
      request.workload.net = std::move(*net);
      request.workload.sequence_length = 512;
      (void)make_plan(request);
      return 0;
    }
    case 2: (void)machine_from({.gpus = text}, {}, 8, 1e11); return 0;
    default: (void)parse_count(text); return 0;
  }
}
