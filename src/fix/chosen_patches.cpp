#include "fix/chosen_patches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "fix/fix_report.hpp"

namespace lockstep {
namespace {

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

std::string diff_of_texts(const Project& project, const std::map<FileId, std::string>& texts) {
  const Project patched = project.with(texts);
  std::string diff;
  for (const auto& [file, text] : texts)
    diff += diff_between(project.file(file), patched.file(file));
  return diff;
}

std::vector<FileRewrite> rewrites(const Project& before, const Project& after) {
  std::vector<FileRewrite> files;
  for (FileId id = 0; id < before.size(); ++id) {
    if (before.file(id).text() == after.file(id).text()) continue;
    auto old_text = before.file(id).disk_text();
    auto new_text = after.file(id).disk_text();
    if (old_text && new_text)
      files.push_back({before.file(id).path(), std::move(*old_text), std::move(*new_text)});
  }
  return files;
}

}  // namespace lockstep
