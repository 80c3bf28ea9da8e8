// Batches on the device that trains. On a GPU the next one is copied on a stream of its own while
// the last is computed; on the CPU there is nothing to copy, and batches pass through.
#pragma once

#include <optional>

#include "reference_trainer/data/loader.hpp"
#include "reference_trainer/step_marks.hpp"
#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

class DeviceFeed {
 public:
  // `device`: nothing where batches stay on the host, and whoever takes them copies. Waiting for
  // the loader and copying are marked as such.
  DeviceFeed(Loader& loader, std::optional<at::Device> device, StepMarks& marks);

  // The next batch, or nothing at the epoch's end. The host waits for the loader, and for the copy
  // only where the batch lies in pageable memory.
  std::optional<Batch> next();
  // After the work on a batch was started: brings the one after it.
  void fetch_ahead();

 private:
  std::optional<Batch> bring();

  Loader& loader_;
  StepMarks& marks_;
  std::optional<at::Device> device_;
  std::optional<c10::Stream> stream_;  // of copies
  std::optional<c10::Event> arrived_;
  std::optional<Batch> ahead_;
};

}  // namespace lockstep
