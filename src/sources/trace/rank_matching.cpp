#include "sources/trace/rank_matching.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

bool is_digit_of_rank(char c) { return c >= '0' && c <= '9'; }

std::optional<int> number_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit_of_rank(text[end])) ++end;
  if (end == at || end - at > 6) return std::nullopt;
  return static_cast<int>(*parse_integer(text.substr(at, end - at)));
}

template <class RankOf>
bool all_different(const std::vector<RankTrace>& traces, RankOf rank_of) {
  std::set<int> ranks;
  for (const RankTrace& trace : traces) {
    const std::optional<int> rank = rank_of(trace);
    if (!rank || !ranks.insert(*rank).second) return false;
  }
  return true;
}

}  // namespace

std::optional<int> rank_in_name(std::string_view path) {
  std::string name = std::filesystem::path(path).filename().string();
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const std::size_t word = name.rfind("rank"); word != std::string::npos) {
    std::size_t at = word + 4;
    while (at < name.size() &&
           (name[at] == '-' || name[at] == '_' || name[at] == '=' || name[at] == '.'))
      ++at;
    if (const auto number = number_at(name, at)) return number;
  }
  // The one number behind a dash or underscore before the endings.
  const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
  // TensorBoard's handler writes host_PID.TIME.pt.trace.json: that number is a process.
  if (stem.size() + 1 < name.size() && is_digit_of_rank(name[stem.size() + 1])) return std::nullopt;
  const std::size_t last = stem.find_last_of("-_");
  if (last == std::string_view::npos) return std::nullopt;
  const auto number = number_at(stem, last + 1);
  return number && std::all_of(stem.begin() + static_cast<std::ptrdiff_t>(last) + 1, stem.end(),
                               is_digit_of_rank)
             ? number
             : std::nullopt;
}

std::optional<std::string> match_ranks(std::vector<RankTrace>& traces) {
  std::optional<std::string> note;
  const auto told = [](const RankTrace& trace) { return trace.told_rank; };
  const auto named = [](const RankTrace& trace) { return rank_in_name(trace.file); };
  if (traces.size() == 1) {
    const bool says_rank = traces.front().file.find("rank") != std::string::npos;
    traces.front().rank = traces.front().told_rank ? *traces.front().told_rank
                          : says_rank              ? named(traces.front()).value_or(0)
                                                   : 0;
  } else if (all_different(traces, told)) {
    for (RankTrace& trace : traces) trace.rank = *trace.told_rank;
  } else if (all_different(traces, named)) {
    for (RankTrace& trace : traces) trace.rank = *named(trace);
  } else {
    for (std::size_t i = 0; i < traces.size(); ++i) traces[i].rank = static_cast<int>(i);
    note =
        "neither the traces nor their names say which rank each is of, or two say the same: ranks "
        "are taken in the order given";
  }
  std::ranges::stable_sort(traces,
                           [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  return note;
}

}  // namespace lockstep
