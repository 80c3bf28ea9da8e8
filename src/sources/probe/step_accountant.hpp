// Makes steps of the spans that one process's probe wrote, and gives every moment of a step to one
// part.
//
// A step reaches from the end of one optimizer step to the end of the next, so nothing between two
// steps is lost. Where pieces lie within each other the inner one has the time: an .item() within
// the forward pass is sync. Two kinds keep what lies within them, for it goes when they go:
// checkpoints and evaluation.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/record.hpp"
#include "probes/wire/lockstep_wire.h"
#include "sources/probe/device_accountant.hpp"

namespace lockstep {

class StepAccountant {
 public:
  explicit StepAccountant(DeviceAccountant::Work device_work = DeviceAccountant::Work::counted)
      : device_(device_work) {}

  void add(const lockstep_span_record& span);
  void add_host(const lockstep_span_record& span);  // of the host probe
  void add(const lockstep_sample& sample);
  DeviceAccountant& device() { return device_; }  // of the CUDA probe's rows

  struct Step {
    std::uint64_t end_ns = 0;
    StepMark mark;  // without its rank
  };
  enum class Until : std::uint8_t {
    settled,  // what may still grow (the GPU's idle time comes a few steps late) is kept back
    end,
  };
  std::vector<Step> take(Until until);

 private:
  struct Span {
    lockstep_span_record record;
    std::shared_ptr<const CodePlace> place;
  };
  struct Look {
    std::uint64_t at_ns = 0;
    std::uint64_t weight_ns = 0;
    std::shared_ptr<const CodePlace> place;
  };
  struct Raw {  // a step whose account is not made yet
    std::int64_t index = 0;
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::vector<Span> spans;
  };

  std::shared_ptr<const CodePlace> place_of(const char* file, std::size_t file_bytes,
                                            std::uint32_t line, std::uint32_t loop_line,
                                            const char* what, std::size_t what_bytes);
  Step account(const Raw& raw);
  void add_evaluation(const Raw& raw, std::vector<Span>& spans) const;
  void add_host_calls(const Raw& raw, std::vector<StepRest>& rests);
  void add_waits_within_torch(const Raw& raw, std::vector<StepPiece>& pieces);
  void add_driver_waits(const Raw& raw, std::vector<StepPiece>& pieces);
  void add_gpu_idle(const Raw& raw, StepMark& mark, std::vector<StepPiece>& pieces);
  void add_device_time(const Raw& raw, StepMark& mark, std::vector<StepPiece>& pieces);

  std::map<CodePlace, std::shared_ptr<const CodePlace>> places_;
  std::vector<Span> open_;  // since the last step ended
  std::optional<std::uint64_t> last_end_ns_;
  std::int64_t next_index_ = 0;
  std::deque<Raw> waiting_;
  std::deque<Look> looks_;
  std::deque<Span> host_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> gpu_idle_;  // stretches, on the host's clock
  bool gpu_speaks_ = false;
  DeviceAccountant device_;
  std::set<std::uint64_t> learning_modules_;  // that were seen in training
  std::uint64_t training_loader_ = 0;
};

}  // namespace lockstep
