#include "reference_trainer/parallel/gradient_reducer.hpp"

#include <algorithm>

namespace lockstep {

// What happens to a full bucket: divided by the ranks, summed over them, and its time of travel
// noted.
class GradientReducer::AverageAndTime
    : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  AverageAndTime(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 std::shared_ptr<Travel> travel)
      : CppCommHookInterface(group), travel_(std::move(travel)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<Tensor> tensors = {bucket.getBufferRef()};
    tensors[0].div_(state_->getSize());
    {
      const std::lock_guard lock(travel_->mutex);
      if (travel_->under_way++ == 0) travel_->since = monotonic_now();
    }
    const auto arrival = state_->allreduce(tensors)->getFuture();
    // The reducer waits for what comes after the note, so that the note is there when the wait is
    // over.
    return arrival->then(
        [travel = travel_](c10::ivalue::Future& arrived) {
          const std::lock_guard lock(travel->mutex);
          if (--travel->under_way == 0) travel->total += monotonic_now() - travel->since;
          return arrived.value();
        },
        arrival->elementType());
  }

 private:
  std::shared_ptr<Travel> travel_;
};

GradientReducer::GradientReducer(const Distributed& ranks, const std::vector<Parameter>& parameters,
                                 const TrainSettings& settings, VirtualGpus& virtual_gpus)
    : virtual_gpus_(virtual_gpus) {
  std::vector<Tensor> values;
  for (const Parameter& parameter : parameters) values.push_back(parameter.value);
  ranks.broadcast(values);

  const auto cap = static_cast<std::size_t>(settings.bucket_mb * 1024 * 1024);
  const auto first_cap = static_cast<std::size_t>(settings.first_bucket_mb * 1024 * 1024);
  const std::vector<bool> none_sparse(values.size(), false);
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(values, {first_cap, cap}, none_sparse);
  std::ranges::reverse(buckets);  // backward reaches the last parameters first
  buckets_ = buckets.size();
  reducer_ = std::make_unique<c10d::Reducer>(
      values, buckets, ranks.group(), none_sparse, static_cast<std::int64_t>(cap),
      settings.find_unused, settings.gradient_as_bucket_view,
      std::unordered_map<std::size_t, std::string>{}, static_cast<std::int64_t>(first_cap),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
  if (settings.static_graph) reducer_->set_static_graph();
  learns_graph_ = settings.static_graph;
  reducer_->register_comm_hook(std::make_unique<AverageAndTime>(ranks.group(), travel_));
}

void GradientReducer::before_forward() {
  reducer_->prepare_for_forward();
  // once, after the first backward: in the order in which gradients came
  reducer_->rebuild_buckets();
}

void GradientReducer::before_backward(const Tensor& loss) {
  wait_began_ns_->store(0);
  {
    const std::lock_guard lock(travel_->mutex);
    travel_->total = {};
  }
  reducer_->prepare_for_backward({loss});
}

// Callbacks at the end of backward run in the order in which they were asked for. This one is asked
// for when backward begins, the reducer's own, which waits for all buckets, when the last bucket is
// full: so ours runs right before the wait.
void GradientReducer::watch_wait(const Tensor& root) {
  // A static graph's first backward only learns which parameters are used; all is reduced at its
  // end.
  c10d::Reducer* const learning = std::exchange(learns_graph_, false) ? reducer_.get() : nullptr;
  root.register_hook(
      [began = wait_began_ns_, gpus = &virtual_gpus_, learning](const Tensor& gradient) {
        torch::autograd::Engine::get_default_engine().queue_callback([began, gpus, learning] {
          began->store(monotonic_now().count());
          gpus->set_waiting(true);
          if (learning != nullptr) learning->delay_all_reduce();
        });
        return gradient;
      });
}

void GradientReducer::after_backward(StepMarks& marks) {
  const auto now = monotonic_now();
  virtual_gpus_.set_waiting(false);
  std::chrono::nanoseconds exposed{};
  if (wait_began_ns_->load() != 0) exposed = now - std::chrono::nanoseconds(wait_began_ns_->load());
  marks.add(LOCKSTEP_SPAN_COLLECTIVE_EXPOSED, exposed);
  const std::lock_guard lock(travel_->mutex);
  marks.add(LOCKSTEP_SPAN_COLLECTIVE_HIDDEN,
            std::max(travel_->total - exposed, std::chrono::nanoseconds(0)));
}

}  // namespace lockstep
