// One process among several: who we are, how we meet, what we say to each other. The whole of it in
// one place, as a lesson:
//
//   const RankFacts facts = rank_from_environment();       who am I?          (the launcher says it
//   in variables) Distributed ranks(facts, {.backend = "gloo"});         init               (meet
//   at MASTER_ADDR:MASTER_PORT) if (ranks.is_main()) print(...);                       one speaks
//   for all GradientReducer reducer(ranks, parameters, ...);       wrap
//   (parallel/gradient_reducer.hpp) Loader loader(dataset, {.rank = ..., .world = ...});   every
//   rank its own part of the data ranks.mean(loss);                                      a metric
//   over all ranks, not over one ranks.barrier();                                       wait for
//   everybody ~Distributed                                           cleanup
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "reference_trainer/rank_facts.hpp"
#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

struct GroupOptions {
  std::string backend = "gloo";  // of the devices: nccl or gloo
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // a group of one, as a program under a launcher with one process has it
  bool even_alone = false;
};

class Distributed {
 public:
  // Meets all other ranks within the timeout, or throws TrainFailure with those that are missing.
  // One rank alone meets nobody.
  Distributed(const RankFacts& facts, const GroupOptions& options);
  // Leaves in peace: NCCL's communicators are taken down. Not after a failure, where others may
  // never answer.
  ~Distributed();
  Distributed(const Distributed&) = delete;
  Distributed& operator=(const Distributed&) = delete;

  int rank() const { return facts_.rank; }
  int world() const { return facts_.world; }
  const RankFacts& facts() const { return facts_; }
  bool is_main() const { return facts_.rank == 0; }
  bool is_alone() const { return !group_; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  void barrier() const;
  void broadcast(std::vector<Tensor> tensors) const;  // from rank 0
  void all_reduce_sum(Tensor& tensor) const;
  void all_reduce_max(Tensor& tensor) const;
  double mean(double value) const;
  double sum(double value) const;
  // On rank 0 the tensors of all ranks, by rank; elsewhere nothing. All have the same size.
  std::vector<Tensor> gather(const Tensor& tensor) const;

  // What a collective under `if rank == 0` comes to: waits for a message that the next rank never
  // sends, until the timeout.
  void wait_for_nobody() const;

  // After a collective failed: the ranks that do not answer, in words. Each rank that fails says so
  // at the store, so those who say nothing within `patience` are the ones that hang or are gone.
  std::string missing_ranks(std::chrono::milliseconds patience) const;

 private:
  void open_store(std::chrono::milliseconds timeout);
  void meet(std::chrono::milliseconds timeout);
  void make_group(const std::string& backend, std::chrono::milliseconds timeout);

  RankFacts facts_;
  c10::intrusive_ptr<c10d::Store> store_;         // nothing for a rank alone
  c10::intrusive_ptr<c10d::ProcessGroup> group_;  // so is this
};

}  // namespace lockstep
