#include "traces/replay_model.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "traces/trace_units.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kSlackNs = 3'000;         // kernels that follow each other begin within that
constexpr std::int64_t kWaitAtLeastNs = 10'000;  // a call that is shorter did not wait

struct ByLaunch {
  bool operator()(const WorkRow* row, const HostRow* call) const { return row->launch < call; }
  bool operator()(const HostRow* call, const WorkRow* row) const { return call < row->launch; }
};

// Builds a rank's model from its rows.
class ModelBuilder {
 public:
  ModelBuilder(const RankRows& rank, RankModel& model)
      : rank_(rank), trace_(*rank.trace), model_(model) {}

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
    // Threads that launch nothing (pinning, watching) are not waited for by anything that is known
    // here.
    std::vector<bool> launches(trace_.threads.size());
    for (const WorkRow& row : *rank_.rows)
      if (row.launch != nullptr) launches[row.launch->thread] = true;
    for (const HostRow& row : trace_.host_rows)
      if (row.category == TraceCategory::runtime && launches[row.thread]) calls_.push_back(&row);
    std::ranges::stable_sort(
        calls_, [](const HostRow* a, const HostRow* b) { return a->start_ns < b->start_ns; });
  }

  void add_nodes() {
    std::vector<const WorkRow*> launched;  // by the call that did, in it by begin
    for (const WorkRow& row : *rank_.rows)
      if (row.launch != nullptr) launched.push_back(&row);
    std::ranges::stable_sort(
        launched, [](const WorkRow* a, const WorkRow* b) { return a->launch < b->launch; });
    for (const HostRow* const call : calls_) {
      const auto [first, last] =
          std::equal_range(launched.begin(), launched.end(), call, ByLaunch{});
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
          ReplayNode node;
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

  const HostItem& launch_of(const ReplayNode& node) const {
    return model_.items[static_cast<std::size_t>(node.item)];
  }

  // The time between a launch and its kernel where nothing else was in the way.
  void set_latencies() {
    std::map<std::pair<int, int>, std::int64_t> ends;
    std::vector<std::int64_t> seen;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      const ReplayNode& node = model_.nodes[i];
      auto& end = ends.try_emplace({rows_[i]->device, rows_[i]->stream}, INT64_MIN).first->second;
      if (end < launch_of(node).start && node.start > launch_of(node).start)
        seen.push_back(node.start - launch_of(node).start);
      end = std::max(end, node.end);
    }
    std::int64_t usual = 8'000;
    if (seen.size() >= 5) {
      std::nth_element(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 4),
                       seen.end());
      usual = std::min<std::int64_t>(seen[seen.size() / 4], 30'000);
    }
    for (ReplayNode& node : model_.nodes)
      node.latency = std::clamp<std::int64_t>(node.start - launch_of(node).start, 0, usual);
  }

  void set_dependencies() {
    struct Stream {
      std::int32_t last = kNone;
      std::vector<std::pair<std::int64_t, std::int32_t>> ends;  // in order
    };
    std::map<std::pair<int, int>, Stream> streams;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(model_.nodes.size()); ++i) {
      ReplayNode& node = model_.nodes[static_cast<std::size_t>(i)];
      const WorkRow& row = *rows_[static_cast<std::size_t>(i)];
      Stream& own = streams[{row.device, row.stream}];
      node.stream_before = own.last;
      std::int64_t base = launch_of(node).start + node.latency;
      if (own.last != kNone)
        base = std::max(base, model_.nodes[static_cast<std::size_t>(own.last)].end);
      node.slack = std::max<std::int64_t>(0, node.start - base);
      if (node.slack > kSlackNs) {
        for (const auto& [key, other] : streams) {
          if (&other == &own) continue;
          const auto behind = std::ranges::upper_bound(
              other.ends, std::pair(node.start + kClockSlackNs, INT32_MAX));
          if (behind == other.ends.begin()) continue;
          const auto [end, candidate] = *std::prev(behind);
          if (end <= base || node.start - end >= node.slack) continue;
          node.other_stream = candidate;
          node.slack = std::max<std::int64_t>(0, node.start - end);
        }
      }
      own.last = i;
      const std::int64_t end =
          own.ends.empty() ? node.end : std::max(node.end, own.ends.back().first);
      own.ends.emplace_back(end, i);
    }
  }

  // Which kernel a wait waited for: of those launched before it, the one that ended last before it
  // returned.
  void set_waits() {
    std::map<std::pair<int, int>, std::int32_t> newest;
    for (std::size_t i = 0; i < model_.items.size(); ++i) {
      HostItem& item = model_.items[i];
      for (std::int32_t n = 0; n < item.node_count; ++n) {
        const std::int32_t node = item.first_node + n;
        const WorkRow& row = *rows_[static_cast<std::size_t>(node)];
        newest[{row.device, row.stream}] = node;
        const bool waited =
            item.end - item.start > kWaitAtLeastNs &&
            model_.nodes[static_cast<std::size_t>(node)].end <= item.end + kClockSlackNs;
        // a copy that returned when it was done
        if (waited && row.type == KernelType::memory) item.waits_for = node;
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
      if (item.waits_for != kNone)
        item.residual = std::max<std::int64_t>(
            0, item.end - std::max(item.start,
                                   model_.nodes[static_cast<std::size_t>(item.waits_for)].end));
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
        rank_.labels->each_piece(
            threads_[i], before - offset, item.start - offset,
            [&](std::int64_t from, std::int64_t to, const HostSegment& segment) {
              if (!model_.gap_pieces.empty() &&
                  model_.gap_pieces.back().item == static_cast<std::int32_t>(i) &&
                  model_.gap_pieces.back().part == segment.part)
                model_.gap_pieces.back().length += to - from;
              else
                model_.gap_pieces.push_back(
                    {static_cast<std::int32_t>(i), segment.part, to - from});
            });
      }
      before = std::max(before, item.end);
    }
    node_of_device_row_.assign(trace_.device_rows.size(), kNone);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      node_of_device_row_[rows_[i]->device_row] = static_cast<std::int32_t>(i);
  }

  const RankRows& rank_;
  const RankTrace& trace_;
  RankModel& model_;
  std::vector<const HostRow*> calls_;
  std::vector<const WorkRow*> rows_;    // of nodes
  std::vector<std::uint32_t> threads_;  // of items
  std::vector<std::int32_t> node_of_device_row_;
};

}  // namespace

RankModel model_of(const RankRows& rank, std::vector<std::int32_t>& node_of_row) {
  RankModel model;
  model.rank = rank.trace->rank;
  node_of_row = ModelBuilder(rank, model).build();
  return model;
}

}  // namespace lockstep
