#include "reference_trainer/data/device_feed.hpp"

#include <utility>

namespace lockstep {

DeviceFeed::DeviceFeed(Loader& loader, std::optional<at::Device> device, StepMarks& marks)
    : loader_(loader), marks_(marks) {
  if (!device || device->is_cpu()) return;
  device_ = device;
  stream_ = c10::impl::VirtualGuardImpl(device->type()).getStreamFromGlobalPool(*device);
  arrived_.emplace(device->type());
}

std::optional<Batch> DeviceFeed::bring() {
  std::optional<Batch> batch;
  marks_.time(LOCKSTEP_SPAN_DATA_WAIT, [&] { batch = loader_.next(); });
  if (!batch || !device_) return batch;
  const c10::StreamGuard on_own_stream(*stream_);
  Batch there;
  marks_.time(LOCKSTEP_SPAN_COPY, [&] {
    there = {batch->inputs.to(*device_, /*non_blocking=*/true),
             batch->targets.to(*device_, /*non_blocking=*/true)};
  });
  arrived_->record(*stream_);
  return there;
}

void DeviceFeed::fetch_ahead() {
  if (device_ && !ahead_) ahead_ = bring();
}

std::optional<Batch> DeviceFeed::next() {
  std::optional<Batch> batch = ahead_ ? std::exchange(ahead_, std::nullopt) : bring();
  if (!batch || !device_) return batch;
  const c10::Stream computing = c10::impl::VirtualGuardImpl(device_->type()).getStream(*device_);
  arrived_->block(computing);
  // its memory was the copies' stream's
  for (const Tensor* part : {&batch->inputs, &batch->targets}) part->record_stream(computing);
  return batch;
}

}  // namespace lockstep
