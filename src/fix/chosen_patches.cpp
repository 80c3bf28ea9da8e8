#include "fix/chosen_patches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "fix/fix_report.hpp"

namespace lockstep {
namespace {

// Where each line begins, and the end of the text.
std::vector<std::size_t> line_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at = line_end(text, at)) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

std::string numbers_words(const FixPlan& plan) {
  if (plan.groups.empty()) return "there is no patch";
  return plan.groups.size() == 1 ? std::string("there is patch 1")
                                 : fmt::format("there are patches 1 to {}", plan.groups.size());
}

}  // namespace

std::optional<std::set<int>> patch_numbers(std::string_view text) {
  std::set<int> numbers;
  for (const std::string_view part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_unsigned(trim(part.substr(0, dash)));
    const auto last =
        dash == std::string_view::npos ? first : parse_unsigned(trim(part.substr(dash + 1)));
    constexpr std::uint64_t kMost = 100'000;
    if (!first || !last || *first < 1 || *last < *first || *last > kMost) return std::nullopt;
    for (std::uint64_t number = *first; number <= *last; ++number)
      numbers.insert(static_cast<int>(number));
  }
  return numbers.empty() ? std::nullopt : std::optional(numbers);
}

Result<Patched> apply_numbers(const Project& project, const FixPlan& plan,
                              const std::set<int>& numbers) {
  std::map<FileId, std::vector<Edit>> edits;
  Patched result;
  for (const int number : numbers) {
    const auto group = std::ranges::find(plan.groups, number, &PatchGroup::number);
    if (group == plan.groups.end())
      return usage_error(fmt::format("patch {} is none of those shown", number),
                         numbers_words(plan) + "; lockstep fix PATH shows them");
    for (const auto& [file, list] : group->edits) {
      auto& all = edits[file];
      all.insert(all.end(), list.begin(), list.end());
      all = in_order(std::move(all));
      if (overlap(all))
        return usage_error(fmt::format("patch {} changes the same lines of {} as one before it",
                                       number, printable(project.file(file).name())),
                           "apply one, look again, then apply the other");
    }
    ++result.applied;
  }
  for (const auto& [file, list] : edits)
    result.texts[file] = edited(project.file(file).text(), list);
  return result;
}

std::vector<Edit> line_edits(std::string_view before, std::string_view after) {
  const auto old_starts = line_starts(before);
  const auto new_starts = line_starts(after);
  const auto old_line = [&](std::size_t i) {
    return before.substr(old_starts[i], old_starts[i + 1] - old_starts[i]);
  };
  const auto new_line = [&](std::size_t i) {
    return after.substr(new_starts[i], new_starts[i + 1] - new_starts[i]);
  };
  std::size_t old_at = 0;
  std::size_t new_at = 0;
  std::size_t old_end = old_starts.size() - 1;
  std::size_t new_end = new_starts.size() - 1;
  std::vector<Edit> edits;
  while (old_at < old_end || new_at < new_end) {
    if (old_at < old_end && new_at < new_end && old_line(old_at) == new_line(new_at)) {
      ++old_at;
      ++new_at;
      continue;
    }
    // The nearest line that both have again: patches are small, and so is what is looked through.
    constexpr std::size_t kFarthest = 400;
    std::size_t old_next = old_end;
    std::size_t new_next = new_end;
    bool met = false;
    for (std::size_t distance = 1; distance <= kFarthest && !met; ++distance)
      for (std::size_t back = 0; back <= distance && !met; ++back) {
        const std::size_t i = old_at + back;
        const std::size_t j = new_at + (distance - back);
        if (i >= old_end || j >= new_end || old_line(i) != new_line(j)) continue;
        old_next = i;
        new_next = j;
        met = true;
      }
    edits.push_back(
        {old_starts[old_at], old_starts[old_next],
         std::string(after.substr(new_starts[new_at], new_starts[new_next] - new_starts[new_at]))});
    old_at = old_next;
    new_at = new_next;
  }
  return edits;
}

std::string diff_of_texts(const Project& project, const std::map<FileId, std::string>& texts) {
  std::map<FileId, std::vector<Edit>> edits;
  for (const auto& [file, text] : texts) edits[file] = line_edits(project.file(file).text(), text);
  return diff_of(project, edits);
}

}  // namespace lockstep
