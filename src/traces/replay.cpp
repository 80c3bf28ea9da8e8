#include "traces/replay.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace lockstep {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int64_t kUnknown = INT64_MIN;
constexpr std::int64_t kSlackNs = 3'000;        // kernels that follow each other begin within that
constexpr std::int64_t kClockSlackNs = 2'000;
constexpr std::int64_t kWaitAtLeastNs = 10'000; // a call that is shorter did not wait
constexpr std::int64_t kCallNs = 3'000;         // what a wait costs that has nothing to wait for

// A call into the driver.
struct HostItem {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t gap = 0;          // the host's own time before it
  std::int32_t beside = kNone;   // the call of another thread that it began during
  std::int64_t residual = 0;     // of a wait: from the kernel's end to the call's
  std::int32_t first_node = kNone;
  std::int32_t node_count = 0;
  std::int32_t waits_for = kNone;
  StepPart part = StepPart::other;
};

// Of a gap, the time that belongs to a part.
struct GapPiece {
  std::int32_t item;
  StepPart part;
  std::int64_t length;
};

// Something that a GPU did.
struct Node {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t latency = 0;  // from its launch, at least
  std::int64_t slack = 0;    // that nothing explains
  std::int32_t item = 0;
  std::int32_t stream_before = kNone;
  std::int32_t other_stream = kNone;  // the kernel that it waited for
  std::int32_t collective = kNone;
  KernelType type = KernelType::compute;
};

struct RankModel {
  int rank = 0;
  std::vector<HostItem> items;
  std::vector<GapPiece> gap_pieces;
  std::vector<Node> nodes;  // by item, in it by begin
};

struct Member {
  std::size_t rank;
  std::int32_t node;
};

bool is_host_own_work(StepPart part) {
  return part == StepPart::forward || part == StepPart::backward || part == StepPart::optimizer;
}

struct ByLaunch {
  bool operator()(const WorkRow* row, const HostRow* call) const { return row->launch < call; }
  bool operator()(const HostRow* call, const WorkRow* row) const { return call < row->launch; }
};

// Builds a rank's model from its rows.
class ModelBuilder {
 public:
  ModelBuilder(const Replay::Rank& rank, RankModel& model) : rank_(rank), trace_(*rank.trace), model_(model) {}

  std::vector<std::int32_t> build() {
    collect_calls();
    add_nodes();
    set_latencies();
    set_dependencies();
    set_waits();
    set_gaps();
    return node_of_device_row_;
  }

 private:
  void collect_calls() {
    // Threads that launch nothing (pinning, watching) are not waited for by anything that is known here.
    std::vector<bool> launches(trace_.threads.size());
    for (const WorkRow& row : *rank_.rows)
      if (row.launch != nullptr) launches[row.launch->thread] = true;
    for (const HostRow& row : trace_.host_rows)
      if (row.category == TraceCategory::runtime && launches[row.thread]) calls_.push_back(&row);
    std::stable_sort(calls_.begin(), calls_.end(), [](const HostRow* a, const HostRow* b) { return a->start_ns < b->start_ns; });
  }

  void add_nodes() {
    std::vector<const WorkRow*> launched;  // by the call that did, in it by begin
    for (const WorkRow& row : *rank_.rows)
      if (row.launch != nullptr) launched.push_back(&row);
    std::stable_sort(launched.begin(), launched.end(), [](const WorkRow* a, const WorkRow* b) { return a->launch < b->launch; });
    for (const HostRow* const call : calls_) {
      const auto [first, last] = std::equal_range(launched.begin(), launched.end(), call, ByLaunch{});
      const bool waits = trace_.names[call->name].find("Synchronize") != std::string_view::npos;
      if (first == last && !waits) continue;  // what else it asks the driver for is its own time
      HostItem item;
      item.start = call->start_ns + rank_.clock_offset_ns;
      item.end = call->end_ns() + rank_.clock_offset_ns;
      item.part = rank_.labels->at(call->thread, call->start_ns).part;
      if (first != last) {
        item.first_node = static_cast<std::int32_t>(model_.nodes.size());
        item.node_count = static_cast<std::int32_t>(last - first);
        for (auto entry = first; entry != last; ++entry) {
          const WorkRow* const row = *entry;
          Node node;
          node.start = row->start_ns + rank_.clock_offset_ns;
          node.end = std::max(node.start, row->end_ns + rank_.clock_offset_ns);
          node.item = static_cast<std::int32_t>(model_.items.size());
          node.type = row->type;
          model_.nodes.push_back(node);
          rows_.push_back(row);
        }
      }
      threads_.push_back(call->thread);
      model_.items.push_back(item);
    }
  }

  const HostItem& launch_of(const Node& node) const { return model_.items[static_cast<std::size_t>(node.item)]; }

  // The time between a launch and its kernel where nothing else was in the way.
  void set_latencies() {
    std::map<std::pair<int, int>, std::int64_t> ends;
    std::vector<std::int64_t> seen;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const Node& node = model_.nodes[i];
      auto& end = ends.try_emplace({rows_[i]->device, rows_[i]->stream}, INT64_MIN).first->second;
      if (end < launch_of(node).start && node.start > launch_of(node).start) seen.push_back(node.start - launch_of(node).start);
      end = std::max(end, node.end);
    }
    std::int64_t usual = 8'000;
    if (seen.size() >= 5) {
      std::nth_element(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 4), seen.end());
      usual = std::min<std::int64_t>(seen[seen.size() / 4], 30'000);
    }
    for (Node& node : model_.nodes) node.latency = std::clamp<std::int64_t>(node.start - launch_of(node).start, 0, usual);
  }

  void set_dependencies() {
    struct Stream {
      std::int32_t last = kNone;
      std::vector<std::pair<std::int64_t, std::int32_t>> ends;  // in order
    };
    std::map<std::pair<int, int>, Stream> streams;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(model_.nodes.size()); ++i) {
      Node& node = model_.nodes[static_cast<std::size_t>(i)];
      const WorkRow& row = *rows_[static_cast<std::size_t>(i)];
      Stream& own = streams[{row.device, row.stream}];
      node.stream_before = own.last;
      std::int64_t base = launch_of(node).start + node.latency;
      if (own.last != kNone) base = std::max(base, model_.nodes[static_cast<std::size_t>(own.last)].end);
      node.slack = std::max<std::int64_t>(0, node.start - base);
      if (node.slack > kSlackNs) {
        for (const auto& [key, other] : streams) {
          if (&other == &own) continue;
          const auto behind = std::upper_bound(other.ends.begin(), other.ends.end(), std::pair(node.start + kClockSlackNs, INT32_MAX));
          if (behind == other.ends.begin()) continue;
          const auto [end, candidate] = *std::prev(behind);
          if (end <= base || node.start - end >= node.slack) continue;
          node.other_stream = candidate;
          node.slack = std::max<std::int64_t>(0, node.start - end);
        }
      }
      own.last = i;
      const std::int64_t end = own.ends.empty() ? node.end : std::max(node.end, own.ends.back().first);
      own.ends.emplace_back(end, i);
    }
  }

  // Which kernel a wait waited for: of those launched before it, the one that ended last before it returned.
  void set_waits() {
    std::map<std::pair<int, int>, std::int32_t> newest;
    for (std::size_t i = 0; i < model_.items.size(); ++i) {
      HostItem& item = model_.items[i];
      for (std::int32_t n = 0; n < item.node_count; ++n) {
        const std::int32_t node = item.first_node + n;
        const WorkRow& row = *rows_[static_cast<std::size_t>(node)];
        newest[{row.device, row.stream}] = node;
        const bool waited = item.end - item.start > kWaitAtLeastNs && model_.nodes[static_cast<std::size_t>(node)].end <= item.end + kClockSlackNs;
        if (waited && row.type == KernelType::memory) item.waits_for = node;  // a copy that returned when it was done
      }
      if (item.node_count == 0 && item.end - item.start > kWaitAtLeastNs) {
        std::int64_t latest = item.start;
        for (const auto& [stream, node] : newest) {
          const std::int64_t end = model_.nodes[static_cast<std::size_t>(node)].end;
          if (end > latest && end <= item.end + kClockSlackNs) {
            latest = end;
            item.waits_for = node;
          }
        }
      }
      if (item.waits_for != kNone) item.residual = std::max<std::int64_t>(0, item.end - std::max(item.start, model_.nodes[static_cast<std::size_t>(item.waits_for)].end));
    }
  }

  void set_gaps() {
    std::int64_t before = model_.items.empty() ? 0 : model_.items.front().start;
    std::int32_t longest = kNone;  // the call that lasts until then
    for (std::size_t i = 0; i < model_.items.size(); ++i) {
      HostItem& item = model_.items[i];
      item.gap = std::max<std::int64_t>(0, item.start - before);
      if (item.start < before) item.beside = longest;
      if (item.end > before) longest = static_cast<std::int32_t>(i);
      if (item.gap > 0) {
        const std::int64_t offset = rank_.clock_offset_ns;
        rank_.labels->each_piece(threads_[i], before - offset, item.start - offset, [&](std::int64_t from, std::int64_t to, const HostSegment& segment) {
          if (!model_.gap_pieces.empty() && model_.gap_pieces.back().item == static_cast<std::int32_t>(i) && model_.gap_pieces.back().part == segment.part) model_.gap_pieces.back().length += to - from;
          else model_.gap_pieces.push_back({static_cast<std::int32_t>(i), segment.part, to - from});
        });
      }
      before = std::max(before, item.end);
    }
    node_of_device_row_.assign(trace_.device_rows.size(), kNone);
    for (std::size_t i = 0; i < rows_.size(); ++i) node_of_device_row_[rows_[i]->device_row] = static_cast<std::int32_t>(i);
  }

  const Replay::Rank& rank_;
  const RankTrace& trace_;
  RankModel& model_;
  std::vector<const HostRow*> calls_;
  std::vector<const WorkRow*> rows_;   // of nodes
  std::vector<std::uint32_t> threads_;  // of items
  std::vector<std::int32_t> node_of_device_row_;
};

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
  std::vector<std::vector<Member>> collectives;
  std::int64_t captured_begin = 0;
  std::int64_t captured_end = 0;
};

namespace {

// One run of a model.
class Run {
 public:
  Run(const std::vector<RankModel>& ranks, const std::vector<std::vector<Member>>& collectives, const WhatIf& what_if)
      : ranks_(ranks), collectives_(collectives), what_if_(what_if), states_(ranks.size()), arrived_(collectives.size()) {
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
    std::int64_t begin = 0;    // of the call that is under way
    std::size_t item = 0;
    std::int32_t node = 0;     // of the item, next to begin
    std::size_t gap_piece = 0;
    bool entered = false;
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
      for (std::size_t n = 0; n < state.ends.size(); ++n)
        if (state.starts[n] != kUnknown && state.ends[n] == kUnknown) {
          state.ends[n] = state.starts[n] + length(ranks_[r].nodes[n]);
          return true;
        }
    }
    return false;
  }

  std::int64_t length(const Node& node) const { return node.type == KernelType::communication && what_if_.free_collectives ? 0 : node.end - node.start; }

  bool left_out(StepPart part) const { return what_if_.without[index_of(part)] || (what_if_.free_launches && is_host_own_work(part)); }

  std::int64_t gap_of(std::size_t r, State& state) {
    std::int64_t gap = ranks_[r].items[state.item].gap;
    const std::vector<GapPiece>& pieces = ranks_[r].gap_pieces;
    for (; state.gap_piece < pieces.size() && pieces[state.gap_piece].item == static_cast<std::int32_t>(state.item); ++state.gap_piece)
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
        if (item.beside != kNone) state.begin = state.item_starts[static_cast<std::size_t>(item.beside)] + item.start - rank.items[static_cast<std::size_t>(item.beside)].start;
        state.item_starts[state.item] = state.begin;
        state.item_why[state.item] = {state.item == 0 ? Cause::start : Cause::host_before, r, kNone};
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
    const Node& node = ranks_[r].nodes[static_cast<std::size_t>(index)];
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
    if (!after(node.stream_before, Cause::stream) || !after(node.other_stream, Cause::other_stream)) return false;
    start += node.slack;
    state.starts[static_cast<std::size_t>(index)] = start;
    state.node_why[static_cast<std::size_t>(index)] = why;
    if (node.collective == kNone) state.ends[static_cast<std::size_t>(index)] = start + length(node);
    else arrive(node.collective);
    return true;
  }

  void arrive(std::int32_t collective) {
    const std::vector<Member>& members = collectives_[static_cast<std::size_t>(collective)];
    if (++arrived_[static_cast<std::size_t>(collective)] < members.size()) return;
    std::int64_t captured = INT64_MIN;
    std::int64_t played = INT64_MIN;
    Why last{Cause::arrival, 0, kNone};
    for (const Member& member : members) {
      captured = std::max(captured, ranks_[member.rank].nodes[static_cast<std::size_t>(member.node)].start);
      const std::int64_t start = states_[member.rank].starts[static_cast<std::size_t>(member.node)];
      if (start > played) {
        played = start;
        last = {Cause::arrival, member.rank, member.node};
      }
    }
    for (const Member& member : members) {
      const std::int64_t moving = what_if_.free_collectives ? 0 : std::max<std::int64_t>(0, ranks_[member.rank].nodes[static_cast<std::size_t>(member.node)].end - captured);
      states_[member.rank].ends[static_cast<std::size_t>(member.node)] = played + moving;
      if (member.rank != last.rank) arrivals_[{member.rank, member.node}] = last;
    }
  }

  // When a call returns. Nothing: what it waits for is not known yet.
  std::optional<std::int64_t> end_of(std::size_t r, const HostItem& item) {
    State& state = states_[r];
    if (item.waits_for == kNone) return state.begin + (what_if_.free_launches && is_host_own_work(item.part) ? 0 : item.end - item.start);
    const bool own_copy = item.node_count > 0;
    if (what_if_.without[index_of(own_copy ? StepPart::copy : item.part)]) return state.begin + std::min(kCallNs, item.end - item.start);
    const std::int64_t done = state.ends[static_cast<std::size_t>(item.waits_for)];
    if (done == kUnknown) return std::nullopt;
    if (done > state.begin) state.item_why[state.item] = {Cause::wait, r, item.waits_for};
    return std::max(done, state.begin) + item.residual;
  }

  const std::vector<RankModel>& ranks_;
  const std::vector<std::vector<Member>>& collectives_;
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
  while (node != kNone) {
    const Node& here = ranks_[r].nodes[static_cast<std::size_t>(node)];
    if (const auto waited = arrivals_.find({r, node}); waited != arrivals_.end()) {
      // The data moved once the last had arrived: go on with the one that was last.
      hold("communication", states_[waited->second.rank].starts[static_cast<std::size_t>(waited->second.node)]);
      r = waited->second.rank;
      node = waited->second.node;
    } else {
      const std::string_view type = here.type == KernelType::memory ? "copy" : kKernelTypeNames[static_cast<std::size_t>(here.type)];
      hold(std::string(type), states_[r].starts[static_cast<std::size_t>(node)]);
    }
    const Node& begun = ranks_[r].nodes[static_cast<std::size_t>(node)];
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
      const std::int64_t before = item > 0 ? states_[r].item_ends[item - 1] : ranks_[r].items.front().start;
      const auto first = std::lower_bound(ranks_[r].gap_pieces.begin(), ranks_[r].gap_pieces.end(), static_cast<std::int32_t>(item), [](const GapPiece& piece, std::int32_t i) { return piece.item < i; });
      for (auto piece = first; piece != ranks_[r].gap_pieces.end() && piece->item == static_cast<std::int32_t>(item) && left > before; ++piece) {
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
      hold(std::string(kStepSpanNames[index_of(ranks_[r].items[item].part)]), states_[r].item_starts[item]);
    }
  }
  std::int64_t sum = 0;
  for (const auto& [what, time] : held) sum += time;
  std::vector<CriticalShare> result;
  for (const auto& [what, time] : held)
    if (sum > 0) result.push_back({what.second, what.first, static_cast<double>(time) / static_cast<double>(sum)});
  std::stable_sort(result.begin(), result.end(), [](const CriticalShare& a, const CriticalShare& b) { return a.share > b.share; });
  return result;
}

}  // namespace

Replay::Replay(const std::vector<Rank>& ranks, const std::vector<Collective>& collectives) : model_(std::make_unique<Model>()) {
  model_->captured_begin = INT64_MAX;
  model_->captured_end = INT64_MIN;
  std::vector<std::vector<std::int32_t>> nodes;
  for (const Rank& rank : ranks) {
    RankModel one;
    one.rank = rank.trace->rank;
    nodes.push_back(ModelBuilder(rank, one).build());
    if (!one.items.empty()) model_->captured_begin = std::min(model_->captured_begin, one.items.front().start);
    for (const Node& node : one.nodes) model_->captured_end = std::max(model_->captured_end, node.end);
    model_->ranks.push_back(std::move(one));
  }
  for (const Collective& collective : collectives) {
    std::vector<Member> members;
    for (const Arrival& arrival : collective.arrivals)
      if (nodes[arrival.trace][arrival.row] != kNone) members.push_back({arrival.trace, nodes[arrival.trace][arrival.row]});
    if (members.size() < 2) continue;
    for (const Member& member : members) model_->ranks[member.rank].nodes[static_cast<std::size_t>(member.node)].collective = static_cast<std::int32_t>(model_->collectives.size());
    model_->collectives.push_back(std::move(members));
  }
}

Replay::~Replay() = default;

double Replay::seconds(const WhatIf& what_if) const {
  const Run run(model_->ranks, model_->collectives, what_if);
  return run.end() > run.begin() ? static_cast<double>(run.end() - run.begin()) / 1e9 : 0;
}

double Replay::captured_seconds() const {
  return model_->captured_end > model_->captured_begin ? static_cast<double>(model_->captured_end - model_->captured_begin) / 1e9 : 0;
}

std::vector<CriticalShare> Replay::critical_path() const {
  const WhatIf as_it_was;
  return Run(model_->ranks, model_->collectives, as_it_was).way_back();
}

}  // namespace lockstep
