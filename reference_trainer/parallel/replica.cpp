#include "reference_trainer/parallel/replica.hpp"

#include <fmt/format.h>

namespace lockstep {

Replica::Replica(Model& model, const StrategyOptions& options)
    : model_(model),
      precision_(options.precision),
      name_(options.settings.parallel),
      graph_batch_(options.settings.cuda_graphs ? options.settings.batch_size : 0),
      accumulates_(options.settings.accumulation > 1 || options.settings.global_batch > 0 ||
                   options.settings.tokens_per_update > 0) {
  const std::vector<PartRange> ranges = cut_into(model, static_cast<int>(options.devices.size()));
  std::vector<Parameter> trained;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ComputeDevice* const device = options.devices[i];
    pieces_.push_back({device, ranges[i], {}, {}});
    device->run([&] { model.move_to(device->torch_device(), ranges[i]); });
    parameters_.push_back({device, model.trainable(ranges[i])});
    trained.insert(trained.end(), parameters_.back().parameters.begin(),
                   parameters_.back().parameters.end());
  }
  const CountedFor buckets(*pieces_.front().device);
  if (!options.ranks.is_alone())
    reducer_ = std::make_unique<GradientReducer>(options.ranks, trained, options.settings,
                                                 options.virtual_gpus);
  graphs_ = graph_batch_ > 0 && pieces_.size() == 1 && !reducer_ &&
            pieces_.front().device->torch_device().is_cuda();
}

std::string Replica::description() const {
  std::string words = pieces_.size() == 1
                          ? fmt::format("{}: the whole model on one device", name_)
                          : fmt::format("{}: the model cut over {} devices, one works at a time",
                                        name_, pieces_.size());
  if (reducer_)
    words += fmt::format("; gradients averaged over all ranks in {} {}", reducer_->buckets(),
                         reducer_->buckets() == 1 ? "bucket" : "buckets");
  return words;
}

Tensor Replica::pass(const Batch& batch, const PassOptions& options, StepMarks& marks) {
  if (can_be_graphed(batch, options)) return graphed_pass(batch, options, marks);
  if (graphs_ && options.is_first) clear_gradients();  // they are still the last update's
  const bool exchange = reducer_ && options.exchange;
  if (exchange) {
    const CountedFor buckets(*pieces_.front().device);
    reducer_->before_forward();
  }
  forward(batch, marks);
  if (exchange) {
    reducer_->before_backward(loss_);
    reducer_->watch_wait(last_root());
  }
  const auto backward_before = marks.spent(LOCKSTEP_SPAN_BACKWARD);
  marks.time(LOCKSTEP_SPAN_BACKWARD, [&] { backward(options); });
  if (exchange) {
    reducer_->after_backward(marks);
    // The wait at the end of backward is the exchange's, not backward's.
    const auto exposed = marks.spent(LOCKSTEP_SPAN_COLLECTIVE_EXPOSED);
    marks.add(LOCKSTEP_SPAN_BACKWARD,
              -std::min(exposed, marks.spent(LOCKSTEP_SPAN_BACKWARD) - backward_before));
  }
  const Tensor loss = loss_.detach();
  forget_pass();
  return loss;
}

// The exchange orders its buckets by the first backward, and learns a static graph from it. Gloo
// adds in an order that depends on the buckets, so a resumed run would differ in the last bit from
// one that never stopped, had both not learnt beforehand. (A static graph must not be learnt in a
// pass without an exchange: the reducer would count its parameters twice.)
void Replica::warm_up(const Batch& batch) {
  if (!reducer_) return;
  StepMarks unseen(0, 1, StepMarks::Wire::none);
  const RandomNumbers random(pieces_.front().device->torch_device());  // drawn in vain
  pass(batch, {.loss_weight = 0}, unseen);
  clear_gradients();
}

// In place: the reducer's buckets and a recorded graph know where they are.
void Replica::clear_gradients() {
  const at::NoGradGuard no_grad;
  for (const DeviceParameters& on_device : parameters_)
    for (const Parameter& parameter : on_device.parameters)
      if (parameter.value.grad().defined()) parameter.value.grad().zero_();
}

// What the last stretch of backward starts from: pieces that are frozen have none.
Tensor Replica::last_root() const {
  for (std::size_t i = 0; i + 1 < pieces_.size(); ++i)
    if (pieces_[i].output.requires_grad()) return pieces_[i].output;
  return loss_;
}

void Replica::forget_pass() {
  for (Piece& piece : pieces_) piece.input = piece.output = Tensor();
  loss_ = tied_here_ = tied_there_ = Tensor();
}

// An epoch's last batch may be smaller than the recorded one. Recording spoils the gradients, so it
// waits for an update's start.
bool Replica::can_be_graphed(const Batch& batch, const PassOptions& options) const {
  return graphs_ && batch.samples() == graph_batch_ && (graph_ || options.is_first);
}

Tensor Replica::graphed_pass(const Batch& batch, const PassOptions& options, StepMarks& marks) {
  if (!graph_) record(batch, options);
  Tensor loss;
  marks.time(LOCKSTEP_SPAN_FORWARD, [&] {  // forward and backward are one here
    pieces_.front().device->run([&] {
      graph_->batch.inputs.copy_(batch.inputs, /*non_blocking=*/true);
      graph_->batch.targets.copy_(batch.targets, /*non_blocking=*/true);
      graph_->loss_weight.fill_(options.loss_weight);
      const RecordedPass& pass = options.is_first ? graph_->first_pass : graph_->later_pass;
      pass.work->play();
      loss = pass.loss.clone();
    });
  });
  return loss;
}

void Replica::forget_gradients() {
  for (const DeviceParameters& on_device : parameters_)
    for (const Parameter& parameter : on_device.parameters)
      parameter.value.mutable_grad() = Tensor();
}

// Recording runs the pass a few times. What this adds to the gradients is overwritten by the first
// pass that is played.
void Replica::record(const Batch& batch, const PassOptions& options) {
  const at::Device here = pieces_.front().device->torch_device();
  pieces_.front().device->run([&] {
    graph_.emplace();
    graph_->batch = {batch.inputs.to(here), batch.targets.to(here)};
    graph_->loss_weight = at::scalar_tensor(options.loss_weight, at::TensorOptions(here));
    const auto run = [&](RecordedPass& pass) {
      Tensor loss;
      {
        const Autocast autocast(precision_, here.type());
        loss = model_.whole_loss(graph_->batch.inputs, graph_->batch.targets);
      }
      Tensor weighed = loss * graph_->loss_weight;
      if (options.loss_scale.defined()) weighed = weighed * options.loss_scale;
      weighed.sum().backward();
      pass.loss = loss.detach();
    };
    graph_->first_pass.work = cuda_part()->record([&] {
      forget_gradients();
      run(graph_->first_pass);
    });
    if (accumulates_)
      graph_->later_pass.work = cuda_part()->record([&] { run(graph_->later_pass); });
  });
}

void Replica::forward(const Batch& batch, StepMarks& marks) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    const bool is_first = i == 0;
    const bool is_last = i + 1 == pieces_.size();
    const at::Device here = piece.device->torch_device();
    Tensor targets;
    marks.time(LOCKSTEP_SPAN_COPY, [&] {
      if (is_first) piece.input = batch.inputs.to(here, /*non_blocking=*/true);
      if (is_last) targets = batch.targets.to(here, /*non_blocking=*/true);
    });
    marks.time(LOCKSTEP_SPAN_FORWARD, [&] {
      piece.device->run([&] {
        const Autocast autocast(precision_, here.type());
        if (!is_first) piece.input = pieces_[i - 1].output.detach().to(here).requires_grad_(true);
        if (is_first && !is_last && model_.tied_weight().defined())
          tied_here_ = model_.tied_weight().alias();
        if (is_last && tied_here_.defined())
          tied_there_ = tied_here_.detach().to(here).requires_grad_(true);
        if (pieces_.size() == 1) {
          loss_ = model_.whole_loss(piece.input, targets);
          return;
        }
        piece.output = model_.forward(piece.input, piece.parts, tied_there_);
        if (is_last) loss_ = model_.loss(piece.output, targets);
      });
    });
  }
}

void Replica::backward(const PassOptions& options) {
  for (std::size_t i = pieces_.size(); i-- > 0;) {
    Piece& piece = pieces_[i];
    const bool is_last = i + 1 == pieces_.size();
    piece.device->run([&] {
      if (is_last) {
        backward_of(loss_, options);
        return;
      }
      if (!piece.output.requires_grad()) return;  // all of it is frozen
      std::vector<Tensor> roots = {piece.output};
      std::vector<Tensor> gradients = {pieces_[i + 1].input.grad().to(piece.output.device())};
      // The tied weight's gradient from the other end joins here, so that it arrives once, as from
      // one graph.
      if (i == 0 && tied_here_.defined()) {
        roots.push_back(tied_here_);
        gradients.push_back(tied_there_.grad().to(tied_here_.device()));
      }
      torch::autograd::backward(roots, gradients);
    });
  }
}

}  // namespace lockstep
