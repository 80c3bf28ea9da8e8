#include "traces/replay.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace lockstep {
namespace {

constexpr std::int64_t kUnknown = INT64_MIN;
constexpr std::int64_t kCallNs = 3'000;  // what a wait costs that has nothing to wait for

bool is_host_own_work(StepPart part) {
  return part == StepPart::forward || part == StepPart::backward || part == StepPart::optimizer;
}

// What decided when something began, for the way back.
enum class Cause : std::uint8_t { start, host_before, launch, stream, other_stream, arrival, wait };
struct Why {
  Cause cause = Cause::start;
  std::size_t rank = 0;
  std::int32_t node = kNone;
};

}  // namespace

struct Replay::Model {
  std::vector<RankModel> ranks;
  std::vector<std::vector<CollectiveMember>> collectives;
  std::int64_t captured_begin = 0;
  std::int64_t captured_end = 0;
};

namespace {

// One run of a model.
class Run {
 public:
  Run(const std::vector<RankModel>& ranks,
      const std::vector<std::vector<CollectiveMember>>& collectives, const WhatIf& what_if)
      : ranks_(ranks),
        collectives_(collectives),
        what_if_(what_if),
        states_(ranks.size()),
        arrived_(collectives.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      State& state = states_[r];
      state.starts.assign(ranks_[r].nodes.size(), kUnknown);
      state.ends.assign(ranks_[r].nodes.size(), kUnknown);
      state.node_why.resize(ranks_[r].nodes.size());
      state.item_why.resize(ranks_[r].items.size());
      state.item_starts.resize(ranks_[r].items.size());
      state.item_ends.resize(ranks_[r].items.size());
      if (!ranks_[r].items.empty()) state.host = ranks_[r].items.front().start;
    }
    play();
  }

  std::int64_t begin() const {
    std::int64_t result = INT64_MAX;
    for (const RankModel& rank : ranks_)
      if (!rank.items.empty()) result = std::min(result, rank.items.front().start);
    return result;
  }

  std::int64_t end() const {
    std::int64_t result = INT64_MIN;
    for (const State& state : states_)
      for (const std::int64_t end : state.ends) result = std::max(result, end);
    return result;
  }

  std::vector<CriticalShare> way_back() const;

 private:
  struct State {
    std::int64_t host = 0;
    std::int64_t begin = 0;  // of the call that is under way
    std::size_t item = 0;
    std::int32_t node = 0;  // of the item, next to begin
    std::size_t gap_piece = 0;
    bool entered = false;
    std::size_t resolved = 0;  // nodes before it have ended
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
    std::vector<Why> node_why;
    std::vector<Why> item_why;
    std::vector<std::int64_t> item_starts;
    std::vector<std::int64_t> item_ends;
  };

  void play() {
    while (true) {
      bool all_done = true;
      bool moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        moved = advance(r) || moved;
        all_done = all_done && states_[r].item == ranks_[r].items.size();
      }
      if (all_done) return;
      if (!moved && !resolve_one()) return;
    }
  }

  // Ranks that wait for one whose capture lacks the collective: it ends as it did.
  bool resolve_one() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      State& state = states_[r];
      for (std::size_t& n = state.resolved; n < state.ends.size() && state.starts[n] != kUnknown;
           ++n)
        if (state.ends[n] == kUnknown) {
          state.ends[n] = state.starts[n] + length(ranks_[r].nodes[n]);
          return true;
        }
    }
    return false;
  }

  std::int64_t length(const ReplayNode& node) const {
    return node.type == KernelType::communication && what_if_.free_collectives
               ? 0
               : node.end - node.start;
  }

  bool left_out(StepPart part) const {
    return what_if_.without[index_of(part)] || (what_if_.free_launches && is_host_own_work(part));
  }

  std::int64_t gap_of(std::size_t r, State& state) {
    std::int64_t gap = ranks_[r].items[state.item].gap;
    const std::vector<GapPiece>& pieces = ranks_[r].gap_pieces;
    for (; state.gap_piece < pieces.size() &&
           pieces[state.gap_piece].item == static_cast<std::int32_t>(state.item);
         ++state.gap_piece)
      if (left_out(pieces[state.gap_piece].part)) gap -= pieces[state.gap_piece].length;
    return std::max<std::int64_t>(0, gap);
  }

  // Goes on until something is needed that another rank has yet to tell. Whether it got anywhere.
  bool advance(std::size_t r) {
    State& state = states_[r];
    const RankModel& rank = ranks_[r];
    bool moved = false;
    while (state.item < rank.items.size()) {
      const HostItem& item = rank.items[state.item];
      if (!state.entered) {
        state.host += gap_of(r, state);
        state.begin = state.host;
        if (item.beside != kNone)
          state.begin = state.item_starts[static_cast<std::size_t>(item.beside)] + item.start -
                        rank.items[static_cast<std::size_t>(item.beside)].start;
        state.item_starts[state.item] = state.begin;
        state.item_why[state.item] = {state.item == 0 ? Cause::start : Cause::host_before, r,
                                      kNone};
        state.entered = true;
        moved = true;
      }
      for (; state.node < item.node_count; ++state.node) {
        if (!begin_node(r, item.first_node + state.node)) return moved;
        moved = true;
      }
      const auto end = end_of(r, item);
      if (!end) return moved;
      state.item_ends[state.item] = *end;
      state.host = item.beside == kNone ? *end : std::max(state.host, *end);
      ++state.item;
      state.node = 0;
      state.entered = false;
      moved = true;
    }
    return moved;
  }

  bool begin_node(std::size_t r, std::int32_t index) {
    State& state = states_[r];
    const ReplayNode& node = ranks_[r].nodes[static_cast<std::size_t>(index)];
    std::int64_t start = state.begin + node.latency;
    Why why{Cause::launch, r, kNone};
    const auto after = [&](std::int32_t other, Cause cause) {
      if (other == kNone) return true;
      const std::int64_t end = state.ends[static_cast<std::size_t>(other)];
      if (end == kUnknown) return false;
      if (end > start) {
        start = end;
        why = {cause, r, other};
      }
      return true;
    };
    if (!after(node.stream_before, Cause::stream) || !after(node.other_stream, Cause::other_stream))
      return false;
    start += node.slack;
    state.starts[static_cast<std::size_t>(index)] = start;
    state.node_why[static_cast<std::size_t>(index)] = why;
    if (node.collective == kNone)
      state.ends[static_cast<std::size_t>(index)] = start + length(node);
    else
      arrive(node.collective);
    return true;
  }

  void arrive(std::int32_t collective) {
    const std::vector<CollectiveMember>& members =
        collectives_[static_cast<std::size_t>(collective)];
    if (++arrived_[static_cast<std::size_t>(collective)] < members.size()) return;
    std::int64_t captured = INT64_MIN;
    std::int64_t played = INT64_MIN;
    Why last{Cause::arrival, 0, kNone};
    for (const CollectiveMember& member : members) {
      captured = std::max(captured,
                          ranks_[member.rank].nodes[static_cast<std::size_t>(member.node)].start);
      const std::int64_t start = states_[member.rank].starts[static_cast<std::size_t>(member.node)];
      if (start > played) {
        played = start;
        last = {Cause::arrival, member.rank, member.node};
      }
    }
    for (const CollectiveMember& member : members) {
      // was resolved without the others
      if (states_[member.rank].ends[static_cast<std::size_t>(member.node)] != kUnknown) continue;
      const std::int64_t moving =
          what_if_.free_collectives
              ? 0
              : std::max<std::int64_t>(
                    0, ranks_[member.rank].nodes[static_cast<std::size_t>(member.node)].end -
                           captured);
      states_[member.rank].ends[static_cast<std::size_t>(member.node)] = played + moving;
      if (member.rank != last.rank) arrivals_[{member.rank, member.node}] = last;
    }
  }

  // When a call returns. Nothing: what it waits for is not known yet.
  std::optional<std::int64_t> end_of(std::size_t r, const HostItem& item) {
    State& state = states_[r];
    if (item.waits_for == kNone)
      return state.begin +
             (what_if_.free_launches && is_host_own_work(item.part) ? 0 : item.end - item.start);
    const bool own_copy = item.node_count > 0;
    if (what_if_.without[index_of(own_copy ? StepPart::copy : item.part)])
      return state.begin + std::min(kCallNs, item.end - item.start);
    const std::int64_t done = state.ends[static_cast<std::size_t>(item.waits_for)];
    if (done == kUnknown) return std::nullopt;
    if (done > state.begin) state.item_why[state.item] = {Cause::wait, r, item.waits_for};
    return std::max(done, state.begin) + item.residual;
  }

  const std::vector<RankModel>& ranks_;
  const std::vector<std::vector<CollectiveMember>>& collectives_;
  const WhatIf& what_if_;
  std::vector<State> states_;
  std::vector<std::size_t> arrived_;
  std::map<std::pair<std::size_t, std::int32_t>, Why> arrivals_;  // of those that waited: for whom
};

// From the last kernel back to the first call, each stretch to what held it up.
std::vector<CriticalShare> Run::way_back() const {
  std::map<std::pair<int, std::string>, std::int64_t> held;
  std::size_t r = 0;
  std::int32_t node = kNone;
  std::int64_t at = INT64_MIN;
  for (std::size_t rank = 0; rank < states_.size(); ++rank)
    for (std::size_t n = 0; n < states_[rank].ends.size(); ++n)
      if (states_[rank].ends[n] > at) {
        at = states_[rank].ends[n];
        r = rank;
        node = static_cast<std::int32_t>(n);
      }
  const auto hold = [&](std::string what, std::int64_t from) {
    if (from < at) held[{ranks_[r].rank, std::move(what)}] += at - from;
    at = std::min(at, from);
  };
  std::size_t left_to_see = 0;  // ranks that disagree about an order could lead in a circle
  for (const RankModel& rank : ranks_) left_to_see += 2 * rank.nodes.size();
  while (node != kNone && left_to_see-- > 0) {
    const ReplayNode& here = ranks_[r].nodes[static_cast<std::size_t>(node)];
    if (const auto waited = arrivals_.find({r, node}); waited != arrivals_.end()) {
      // The data moved once the last had arrived: go on with the one that was last.
      hold("communication",
           states_[waited->second.rank].starts[static_cast<std::size_t>(waited->second.node)]);
      r = waited->second.rank;
      node = waited->second.node;
    } else {
      const std::string_view type = here.type == KernelType::memory
                                        ? "copy"
                                        : kKernelTypeNames[static_cast<std::size_t>(here.type)];
      hold(std::string(type), states_[r].starts[static_cast<std::size_t>(node)]);
    }
    const ReplayNode& begun = ranks_[r].nodes[static_cast<std::size_t>(node)];
    const Why& why = states_[r].node_why[static_cast<std::size_t>(node)];
    if (why.cause != Cause::launch) {
      hold("launch", states_[r].ends[static_cast<std::size_t>(why.node)]);
      node = why.node;
      continue;
    }
    // Launched by the host: back along its calls to the wait, or to the begin.
    auto item = static_cast<std::size_t>(begun.item);
    hold("launch", states_[r].item_starts[item]);
    node = kNone;
    while (true) {
      std::int64_t left = at;
      const std::int64_t before =
          item > 0 ? states_[r].item_ends[item - 1] : ranks_[r].items.front().start;
      const auto first = std::ranges::lower_bound(
          ranks_[r].gap_pieces, static_cast<std::int32_t>(item), {}, &GapPiece::item);
      for (auto piece = first; piece != ranks_[r].gap_pieces.end() &&
                               piece->item == static_cast<std::int32_t>(item) && left > before;
           ++piece) {
        left = std::max(before, left - piece->length);
        hold(std::string(kStepSpanNames[index_of(piece->part)]), left);
      }
      hold(std::string(kStepSpanNames[index_of(ranks_[r].items[item].part)]), before);
      if (item == 0) break;
      --item;
      const Why& call = states_[r].item_why[item];
      if (call.cause == Cause::wait) {
        hold("sync", states_[r].ends[static_cast<std::size_t>(call.node)]);
        node = call.node;
        break;
      }
      hold(std::string(kStepSpanNames[index_of(ranks_[r].items[item].part)]),
           states_[r].item_starts[item]);
    }
  }
  std::int64_t sum = 0;
  for (const auto& [what, time] : held) sum += time;
  std::vector<CriticalShare> result;
  for (const auto& [what, time] : held)
    if (sum > 0)
      result.push_back(
          {what.second, what.first, static_cast<double>(time) / static_cast<double>(sum)});
  std::ranges::stable_sort(
      result, [](const CriticalShare& a, const CriticalShare& b) { return a.share > b.share; });
  return result;
}

}  // namespace

Replay::Replay(const std::vector<RankRows>& ranks, const std::vector<Collective>& collectives)
    : model_(std::make_unique<Model>()) {
  model_->captured_begin = INT64_MAX;
  model_->captured_end = INT64_MIN;
  std::vector<std::vector<std::int32_t>> nodes;
  for (const RankRows& rank : ranks) {
    RankModel one = model_of(rank, nodes.emplace_back());
    if (!one.items.empty())
      model_->captured_begin = std::min(model_->captured_begin, one.items.front().start);
    for (const ReplayNode& node : one.nodes)
      model_->captured_end = std::max(model_->captured_end, node.end);
    model_->ranks.push_back(std::move(one));
  }
  for (const Collective& collective : collectives) {
    std::vector<CollectiveMember> members;
    for (const Arrival& arrival : collective.arrivals)
      if (nodes[arrival.trace][arrival.row] != kNone)
        members.push_back({arrival.trace, nodes[arrival.trace][arrival.row]});
    if (members.size() < 2) continue;
    for (const CollectiveMember& member : members)
      model_->ranks[member.rank].nodes[static_cast<std::size_t>(member.node)].collective =
          static_cast<std::int32_t>(model_->collectives.size());
    model_->collectives.push_back(std::move(members));
  }
}

Replay::~Replay() = default;

double Replay::seconds(const WhatIf& what_if) const {
  const Run run(model_->ranks, model_->collectives, what_if);
  return run.end() > run.begin() ? static_cast<double>(run.end() - run.begin()) / 1e9 : 0;
}

double Replay::captured_seconds() const {
  return model_->captured_end > model_->captured_begin
             ? static_cast<double>(model_->captured_end - model_->captured_begin) / 1e9
             : 0;
}

std::vector<CriticalShare> Replay::critical_path() const {
  const WhatIf as_it_was;
  return Run(model_->ranks, model_->collectives, as_it_was).way_back();
}

}  // namespace lockstep
