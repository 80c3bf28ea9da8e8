#include "traces/collectives.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/median.hpp"
#include "kernels/kernel_type.hpp"

namespace lockstep {
namespace {

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)" without its
// arguments.
std::string short_name(std::string_view name) {
  return std::string(name.substr(0, name.find('(')));
}

struct Key {
  std::string group;
  std::string operation;

  auto operator<=>(const Key&) const = default;
};

// The algorithm and the protocol are chosen by size and may differ between releases, not between
// ranks: the operation is enough.
std::string operation_of(const CollectiveFacts* facts, std::string_view kernel) {
  if (facts != nullptr && !facts->name.empty()) return std::string(facts->name);
  return short_name(kernel);
}

std::int64_t unix_of(const RankTrace& trace, std::int64_t time) {
  return time + trace.base_unix_ns;
}

std::vector<std::uint32_t> collective_rows(const RankTrace& trace) {
  std::vector<std::int8_t> known(trace.names.size(), -1);
  std::vector<std::uint32_t> result;
  for (std::uint32_t i = 0; i < trace.device_rows.size(); ++i) {
    const DeviceRow& row = trace.device_rows[i];
    if (row.category != TraceCategory::kernel) continue;
    std::int8_t& is_one = known[row.name];
    if (is_one < 0)
      is_one =
          kernel_type(trace.names[row.name], row.category) == KernelType::communication ? 1 : 0;
    if (is_one == 1) result.push_back(i);
  }
  return result;
}

std::map<Key, std::vector<std::uint32_t>> by_key(const RankTrace& trace, bool streams_agree) {
  std::map<Key, std::vector<std::uint32_t>> result;
  for (const std::uint32_t i : collective_rows(trace)) {
    const DeviceRow& row = trace.device_rows[i];
    const auto found = trace.collectives.find(i);
    const CollectiveFacts* const facts =
        found == trace.collectives.end() ? nullptr : &found->second;
    // Without a group's name the stream stands for it, for each communicator has one of its own:
    // where all ranks number them alike.
    std::string group;
    if (facts != nullptr && !facts->group.empty())
      group = facts->group;
    else if (streams_agree)
      group = "stream " + std::to_string(row.stream);
    result[{group, operation_of(facts, trace.names[row.name])}].push_back(i);
  }
  for (auto& [key, rows] : result)
    std::ranges::sort(rows, [&](std::uint32_t a, std::uint32_t b) {
      return trace.device_rows[a].start_ns < trace.device_rows[b].start_ns;
    });
  return result;
}

// By how many places the second list lies behind the first, so that the ends agree: captures begin
// at different moments. Where no shift brings them near each other the clocks differ, and equal
// lists are taken to be of equal moments.
std::ptrdiff_t best_shift(const RankTrace& a, const std::vector<std::uint32_t>& rows_a,
                          const RankTrace& b, const std::vector<std::uint32_t>& rows_b) {
  constexpr std::ptrdiff_t kMostShift = 64;
  constexpr double kNearNs = 5e8;
  const auto size_a = static_cast<std::ptrdiff_t>(rows_a.size());
  const auto size_b = static_cast<std::ptrdiff_t>(rows_b.size());
  std::ptrdiff_t nearest = 0;
  double nearest_ns = -1;
  std::ptrdiff_t steadiest = 0;
  double steadiest_ns = -1;
  for (std::ptrdiff_t shift = -std::min(kMostShift, size_a - 1);
       shift <= std::min(kMostShift, size_b - 1); ++shift) {
    const std::ptrdiff_t from = std::max<std::ptrdiff_t>(0, -shift);
    const std::ptrdiff_t to = std::min(size_a, size_b - shift);
    if (to - from < std::min(size_a, size_b) / 2 || to <= from) continue;
    double distance = 0;
    std::vector<double> differences;
    for (std::ptrdiff_t i = from; i < to; ++i) {
      const auto end_a = unix_of(a, a.device_rows[rows_a[static_cast<std::size_t>(i)]].end_ns());
      const auto end_b =
          unix_of(b, b.device_rows[rows_b[static_cast<std::size_t>(i + shift)]].end_ns());
      differences.push_back(static_cast<double>(end_a) - static_cast<double>(end_b));
      distance += std::abs(differences.back()) / static_cast<double>(to - from);
    }
    if (nearest_ns < 0 || distance < nearest_ns) {
      nearest_ns = distance;
      nearest = shift;
    }
    const double middle = middle_value(differences);
    double spread = 0;
    for (const double difference : differences)
      spread += std::abs(difference - middle) / static_cast<double>(to - from);
    if (steadiest_ns < 0 || spread < steadiest_ns) {
      steadiest_ns = spread;
      steadiest = shift;
    }
  }
  if (nearest_ns >= 0 && nearest_ns < kNearNs) return nearest;
  return size_a == size_b ? 0 : steadiest;
}

}  // namespace

std::vector<Collective> match_collectives(const std::vector<RankTrace>& traces) {
  std::vector<Collective> result;
  if (traces.size() < 2) return result;
  std::set<std::set<int>> streams;
  for (const RankTrace& trace : traces) {
    std::set<int> of_rank;
    for (const std::uint32_t row : collective_rows(trace))
      of_rank.insert(trace.device_rows[row].stream);
    streams.insert(std::move(of_rank));
  }
  std::vector<std::map<Key, std::vector<std::uint32_t>>> of_ranks;
  for (const RankTrace& trace : traces) of_ranks.push_back(by_key(trace, streams.size() == 1));
  std::set<Key> keys;
  for (const auto& of_rank : of_ranks)
    for (const auto& [key, rows] : of_rank) keys.insert(key);
  for (const Key& key : keys) {
    // The first rank that has it leads: groups need not include the first of all.
    std::size_t lead = 0;
    while (!of_ranks[lead].contains(key)) ++lead;
    const std::vector<std::uint32_t>& rows = of_ranks[lead].at(key);
    std::vector<Collective> of_key(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      of_key[i] = {short_name(traces[lead].names[traces[lead].device_rows[rows[i]].name]),
                   {{lead, rows[i]}}};
    for (std::size_t other = lead + 1; other < traces.size(); ++other) {
      const auto found = of_ranks[other].find(key);
      if (found == of_ranks[other].end()) continue;
      const std::ptrdiff_t shift = best_shift(traces[lead], rows, traces[other], found->second);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) + shift;
        if (at >= 0 && at < static_cast<std::ptrdiff_t>(found->second.size()))
          of_key[i].arrivals.push_back({other, found->second[static_cast<std::size_t>(at)]});
      }
    }
    for (Collective& collective : of_key)
      if (collective.arrivals.size() > 1) result.push_back(std::move(collective));
  }
  const auto begin_of = [&](const Collective& collective) {
    const RankTrace& trace = traces[collective.arrivals.front().trace];
    return unix_of(trace, trace.device_rows[collective.arrivals.front().row].start_ns);
  };
  std::ranges::stable_sort(
      result, [&](const Collective& a, const Collective& b) { return begin_of(a) < begin_of(b); });
  return result;
}

std::vector<std::int64_t> clock_offsets(const std::vector<RankTrace>& traces,
                                        const std::vector<Collective>& collectives) {
  constexpr std::int64_t kClocksAgreeNs = 1'000'000;
  std::vector<std::int64_t> offsets;
  for (const RankTrace& trace : traces) offsets.push_back(trace.base_unix_ns);
  std::vector<bool> is_set(traces.size());
  if (!is_set.empty()) is_set[0] = true;
  // From rank to rank that share a collective: a group of later ranks is set by the first of them
  // that another group has set.
  for (std::size_t round = 0; round < traces.size(); ++round)
    for (std::size_t other = 0; other < traces.size(); ++other) {
      if (is_set[other]) continue;
      std::vector<std::int64_t> differences;
      for (const Collective& collective : collectives) {
        const auto own = std::ranges::find_if(
            collective.arrivals, [&](const Arrival& arrival) { return arrival.trace == other; });
        const auto known = std::ranges::find_if(
            collective.arrivals, [&](const Arrival& arrival) { return is_set[arrival.trace]; });
        if (own == collective.arrivals.end() || known == collective.arrivals.end()) continue;
        differences.push_back(traces[known->trace].device_rows[known->row].end_ns() +
                              offsets[known->trace] - traces[other].device_rows[own->row].end_ns() -
                              offsets[other]);
      }
      if (differences.size() < 3) continue;
      const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
      std::nth_element(differences.begin(), middle, differences.end());
      if (*middle > kClocksAgreeNs || *middle < -kClocksAgreeNs) offsets[other] += *middle;
      is_set[other] = true;
    }
  return offsets;
}

}  // namespace lockstep
