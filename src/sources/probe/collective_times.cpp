#include "sources/probe/collective_times.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kMostWaiting = 20'000;
// behind the call: buffers with its kernel have come by then
constexpr std::uint64_t kNothingMoreNs = 3'000'000'000;
constexpr std::uint64_t kLongestNs = 86'400ULL * 1'000'000'000ULL;

std::string name_in(const char* field, std::size_t bytes) {
  return {field, ::strnlen(field, bytes)};
}

// "AllReduce" in "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)". Sends and receives share a kernel.
bool is_kernel_of(std::string_view kernel, const CollectiveCall& call) {
  const std::string word = "_" + (call.to_one_peer ? std::string("SendRecv") : call.operation);
  const auto found = kernel.find(word);
  if (found == std::string_view::npos) return false;
  const std::string_view rest = kernel.substr(found + word.size());
  return rest.empty() || rest.front() == '_' || rest.front() == '(';  // Reduce is not ReduceScatter
}

}  // namespace

bool CollectiveTimes::add(const lockstep_collective& said) {
  if (said.called_ns == 0 || said.queued_ns < said.called_ns ||
      said.queued_ns - said.called_ns > kLongestNs || said.rank < 0 || said.ranks < 0 ||
      said.device_end_ns < said.device_begin_ns)
    return false;
  TimedCollective made;
  made.called_ns = said.called_ns;
  made.queued_ns = said.queued_ns;
  made.begin_ns = said.device_begin_ns;
  made.end_ns = said.device_end_ns;
  made.group = said.group;
  CollectiveCall& call = made.call;
  call.communicator = said.communicator;
  call.sequence = said.sequence;
  call.bytes = static_cast<double>(said.bytes);
  call.place = said.rank;
  call.size = said.ranks;
  call.nodes = said.nodes;
  call.channels = static_cast<int>(std::min<std::uint32_t>(said.channels, 1024));
  call.captured = (said.flags & LOCKSTEP_COLLECTIVE_CAPTURED) != 0;
  call.to_one_peer = (said.flags & LOCKSTEP_COLLECTIVE_TO_ONE_PEER) != 0;
  call.operation = name_in(said.operation, sizeof said.operation);
  call.algorithm = name_in(said.algorithm, sizeof said.algorithm);
  call.protocol = name_in(said.protocol, sizeof said.protocol);
  // Said once more with the GPU's times: the newer one counts.
  const auto known =
      std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const TimedCollective& other) {
        return other.called_ns == made.called_ns && other.call.sequence == call.sequence &&
               other.call.communicator == call.communicator &&
               other.call.operation == call.operation;
      });
  if (known != waiting_.rend()) {
    *known = std::move(made);
    return true;
  }
  waiting_.push_back(std::move(made));
  if (waiting_.size() > kMostWaiting) waiting_.pop_front();
  return true;
}

void CollectiveTimes::add(const std::vector<CollectiveKernel>& kernels) {
  kernels_.insert(kernels_.end(), kernels.begin(), kernels.end());
  std::ranges::sort(kernels_, [](const CollectiveKernel& a, const CollectiveKernel& b) {
    return a.begin_ns < b.begin_ns;
  });
  if (kernels_.size() > kMostWaiting)
    kernels_.erase(kernels_.begin(), kernels_.end() - static_cast<std::ptrdiff_t>(kMostWaiting));
}

// A communicator's kernels run on its stream in the order of its calls, each after its call. The
// calls of a group are one kernel: the first of them has all their bytes.
void CollectiveTimes::match() {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    TimedCollective& one = waiting_[i];
    if (one.begin_ns != 0 || one.call.captured) continue;
    const auto known = stream_of_.find(one.call.communicator);
    const auto kernel = std::ranges::find_if(kernels_, [&](const CollectiveKernel& candidate) {
      if (candidate.begin_ns < one.called_ns || !is_kernel_of(*candidate.name, one.call))
        return false;
      if (known != stream_of_.end()) return candidate.stream == known->second;
      return std::ranges::none_of(
          stream_of_, [&](const auto& other) { return other.second == candidate.stream; });
    });
    if (kernel == kernels_.end()) continue;
    stream_of_.emplace(one.call.communicator, kernel->stream);
    one.begin_ns = kernel->begin_ns;
    one.end_ns = kernel->end_ns;
    for (std::size_t other = i + 1; one.group != 0 && other < waiting_.size(); ++other) {
      TimedCollective& fellow = waiting_[other];
      if (fellow.group != one.group || fellow.call.communicator != one.call.communicator ||
          fellow.begin_ns != 0)
        continue;
      fellow.begin_ns = one.begin_ns;
      fellow.end_ns = one.end_ns;
      if (fellow.call.operation == one.call.operation)
        one.call.bytes += std::exchange(fellow.call.bytes, 0);
    }
    kernels_.erase(kernel);
  }
  // of calls that were not told
  if (!waiting_.empty())
    std::erase_if(kernels_, [&](const CollectiveKernel& kernel) {
      return kernel.begin_ns < waiting_.front().called_ns;
    });
}

std::vector<TimedCollective> CollectiveTimes::take(Until until, bool kernels_are_seen,
                                                   std::uint64_t now_ns) {
  std::ranges::sort(waiting_, [](const TimedCollective& a, const TimedCollective& b) {
    return a.called_ns < b.called_ns;
  });
  match();
  std::vector<TimedCollective> taken;
  while (!waiting_.empty()) {
    const TimedCollective& first = waiting_.front();
    const bool complete = first.begin_ns != 0;
    const bool old =
        now_ns > first.called_ns + (kernels_are_seen ? kNothingMoreNs : kNothingMoreNs / 3);
    if (until == Until::settled && !complete && !old) break;
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

}  // namespace lockstep
