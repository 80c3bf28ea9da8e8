#include "reference_trainer/distributed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 50ms;
// rank 0 holds the store: it leaves after the others have asked who is missing
constexpr auto kFarewell = 1s;

std::string list_of(const std::vector<int>& ranks) {
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(words, ", ");
}

// libtorch adds a stack of calls.
std::string first_line_of(const std::exception& problem) {
  const std::string what = problem.what();
  return printable(std::string_view(what).substr(0, std::min<std::size_t>(what.find('\n'), 200)));
}

std::string place_of(int rank, const char* kind) {
  return fmt::format("lockstep/{}/{}", kind, rank);
}

}  // namespace

Distributed::Distributed(const RankFacts& facts, const GroupOptions& options) : facts_(facts) {
  if (facts_.world == 1 && !options.even_alone) return;
  open_store(options.timeout);
  // A restarted job must not meet what the last attempt left.
  store_ = c10::make_intrusive<c10d::PrefixStore>(fmt::format("lockstep-train/{}", facts_.attempt),
                                                  store_);
  try {
    meet(options.timeout);
    make_group(options.backend, options.timeout);
  } catch (const TrainFailure&) {
    throw;
  } catch (const std::exception& problem) {
    throw TrainFailure(fmt::format("could not meet the other ranks: {}", first_line_of(problem)),
                       "see what the other ranks say; one of them may have left");
  }
}

void Distributed::open_store(std::chrono::milliseconds timeout) {
  if (facts_.world == 1) {  // nobody else comes: no port is needed
    store_ = c10::make_intrusive<c10d::HashStore>();
    return;
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(facts_.master_port);
  options.isServer = is_main() && !facts_.launcher_has_store;
  options.numWorkers = static_cast<std::size_t>(facts_.world);
  options.waitWorkers = false;  // meet() waits, and names who is missing
  options.timeout = timeout;
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(facts_.master_address, options);
  } catch (const std::exception& problem) {
    const std::string address = fmt::format("{}:{}", facts_.master_address, facts_.master_port);
    const std::string cause = first_line_of(problem);
    if (options.isServer)
      throw TrainFailure(fmt::format("cannot listen at {}: {}", address, cause),
                         "choose another port: lockstep launch --master-port 29501");
    throw TrainFailure(fmt::format("rank 0 is missing: nobody answers at {} ({})", address, cause),
                       "start all ranks, check the address, or see what became of rank 0");
  }
}

Distributed::~Distributed() {
  if (!group_ || std::uncaught_exceptions() > 0) return;
  try {
    group_->getDefaultBackend()->shutdown();
  } catch (const std::exception&) {  // the work is done: how its end went changes nothing
  }
}

void Distributed::make_group(const std::string& backend, std::chrono::milliseconds timeout) {
  const auto group_store = c10::make_intrusive<c10d::PrefixStore>("group", store_);
  group_ = c10::make_intrusive<c10d::ProcessGroup>(group_store, facts_.rank, facts_.world);
  if (backend == "nccl") {
    group_->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                       cuda_part()->make_nccl(group_store, facts_.rank, facts_.world, timeout));
    group_->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
  }
  // Words and small numbers stay on the CPU, whatever the gradients do.
  auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
  const bool one_machine = facts_.local_world == facts_.world;
  gloo->devices.push_back(one_machine ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                      : c10d::ProcessGroupGloo::createDefaultDevice());
  const auto cpu = c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>("gloo", store_), facts_.rank, facts_.world, gloo);
  group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, cpu);
  if (backend == "nccl") return;
  // over the host's memory
  group_->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::GLOO, cpu);
  group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
}

// Everybody leaves a sign at the store and waits for the others' signs.
void Distributed::meet(std::chrono::milliseconds timeout) {
  store_->set(place_of(facts_.rank, "here"), std::vector<std::uint8_t>{1});
  const auto deadline = monotonic_now() + timeout;
  while (true) {
    std::vector<int> missing;
    for (int rank = 0; rank < facts_.world; ++rank)
      if (!store_->check({place_of(rank, "here")})) missing.push_back(rank);
    if (missing.empty()) return;
    if (monotonic_now() > deadline) {
      if (is_main()) std::this_thread::sleep_for(kFarewell);
      throw TrainFailure(fmt::format("{} of {} missing: {} did not come within {}", missing.size(),
                                     facts_.world, list_of(missing), format_duration(timeout)),
                         "see what became of them; a slow start needs a longer --timeout");
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kLookEvery, timeout / 4));
  }
}

std::string Distributed::missing_ranks(std::chrono::milliseconds patience) const {
  if (facts_.world == 1) return "";
  try {
    store_->set(place_of(facts_.rank, "failed"), std::vector<std::uint8_t>{1});
    const auto deadline = monotonic_now() + patience;
    std::vector<int> silent;
    do {
      std::this_thread::sleep_for(kLookEvery);
      silent.clear();
      for (int rank = 0; rank < facts_.world; ++rank)
        if (!store_->check({place_of(rank, "failed")})) silent.push_back(rank);
    } while (!silent.empty() && monotonic_now() < deadline);
    if (is_main()) std::this_thread::sleep_for(kFarewell);
    return silent.empty()
               ? ""
               : list_of(silent) + (silent.size() == 1 ? " does not answer" : " do not answer");
  } catch (const std::exception&) {
    return "rank 0 does not answer";  // it holds the store
  }
}

void Distributed::barrier() const {
  if (!is_alone()) group_->barrier()->wait();
}

void Distributed::broadcast(std::vector<Tensor> tensors) const {
  if (is_alone() || tensors.empty()) return;
  const at::NoGradGuard no_grad;
  c10d::broadcast_coalesced(group_, tensors, 64 << 20, 0);
}

void Distributed::all_reduce_sum(Tensor& tensor) const {
  if (is_alone()) return;
  std::vector<Tensor> tensors = {tensor};
  group_->allreduce(tensors)->wait();
}

void Distributed::all_reduce_max(Tensor& tensor) const {
  if (is_alone()) return;
  std::vector<Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group_->allreduce(tensors, options)->wait();
}

double Distributed::sum(double value) const {
  Tensor number = at::full({1}, value, at::kDouble);
  all_reduce_sum(number);
  return number.item<double>();
}

double Distributed::mean(double value) const { return sum(value) / facts_.world; }

void Distributed::wait_for_nobody() const {
  constexpr int kNobodysTag = 7261;
  if (is_alone()) return;
  std::vector<Tensor> word = {at::zeros({1})};
  group_->recv(word, (facts_.rank + 1) % facts_.world, kNobodysTag)->wait();
}

std::vector<Tensor> Distributed::gather(const Tensor& tensor) const {
  if (is_alone()) return {tensor};
  std::vector<std::vector<Tensor>> gathered;
  if (is_main()) {
    gathered.emplace_back();
    for (int rank = 0; rank < facts_.world; ++rank)
      gathered.front().push_back(at::empty_like(tensor));
  }
  std::vector<Tensor> own = {tensor};
  group_->gather(gathered, own)->wait();
  return is_main() ? gathered.front() : std::vector<Tensor>{};
}

}  // namespace lockstep
