#include "render/text/fix_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "render/text/paint.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kIndent = 11;  // "  effect:  "

class Writer {
 public:
  Writer(Colors colors, std::size_t width) : paint_(colors), width_(width) {}

  std::string text(const Report& report) {
    std::set<int> done;
    for (const Finding& finding : report.findings) {
      const std::optional<int> group =
          finding.fixes.empty() ? std::nullopt : finding.fixes.front().group;
      if (group && !done.insert(*group).second) continue;
      if (!group) {
        finding_words(finding);
        continue;
      }
      const Finding* last = nullptr;
      for (const Finding& member : report.findings)
        if (!member.fixes.empty() && member.fixes.front().group == group) {
          finding_words(member);
          last = &member;
        }
      diff(*last->fixes.front().diff);
    }
    for (const NotMeasured& item : report.not_measured)
      labelled(item.reason.starts_with("ignores ") ? "comment" : "not edited",
               fmt::format("{}: {}", item.signal, item.reason));
    summary(report);
    return std::move(text_);
  }

 private:
  void labelled(const char* label, const std::string& words) {
    const std::string body = wrapped(printable(words), kIndent, width_);
    const std::string head = fmt::format("  {:<{}}", fmt::format("{}:", label), kIndent - 2);
    text_ += paint_.faint(head.size() > kIndent ? head + " " : head) +
             (head.size() > kIndent ? std::string(trim(body)) + "\n"
                                    : body.substr(std::min(body.size(), kIndent)));
  }

  void finding_words(const Finding& finding) {
    const FindingName& name = name_of(finding.code);
    const std::string place = finding.where.empty()
                                  ? ""
                                  : fmt::format("{}:{}", printable(finding.where.front().file),
                                                finding.where.front().line);
    const Fix* const first = finding.fixes.empty() ? nullptr : &finding.fixes.front();
    text_ += fmt::format("{}  {}", paint_.bold(place),
                         paint_.of(finding.severity, fmt::format("{} {}", name.id, name.name)));
    if (first != nullptr) text_ += fmt::format("  [{}]", safety_word(first->safety));
    if (first != nullptr && first->group)
      text_ += paint_.faint(fmt::format("  patch {}", *first->group));
    text_ += "\n";
    labelled("why", finding.reason);
    for (const Fix& fix : finding.fixes) {
      labelled(&fix == first ? "fix" : "also", fix.description);
      if (!fix.command.empty())
        text_ += std::string(kIndent, ' ') + paint_.bold(command_words(fix.command)) + "\n";
      if (&fix != first) {
        if (!fix.effect.empty())
          text_ += paint_.faint(wrapped("(" + printable(fix.effect) + ")", kIndent + 2, width_));
        continue;
      }
      if (!fix.effect.empty()) labelled("effect", fix.effect);
      // The parts of one patch change the same things: said once.
      if (!fix.changes.empty() &&
          !(fix.group && fix.group == told_group_ && fix.changes == told_changes_))
        labelled("changes", fix.changes);
      told_group_ = fix.group;
      told_changes_ = fix.changes;
      if (fix.diff && !fix.group) diff(*fix.diff);
    }
    text_ += first != nullptr && first->group ? "" : "\n";
  }

  void diff(const std::string& lines) { text_ += "\n" + diff_text(lines, 0, paint_) + "\n"; }

  void summary(const Report& report) {
    std::map<int, FixSafety> groups;
    std::size_t shown_only = 0;
    for (const Finding& finding : report.findings) {
      if (!finding.fixes.empty() && finding.fixes.front().group)
        groups[*finding.fixes.front().group] = finding.fixes.front().safety;
      else
        ++shown_only;
    }
    const auto count = [&](FixSafety safety) {
      return std::ranges::count_if(groups, [&](const auto& row) { return row.second == safety; });
    };
    const auto safe = count(FixSafety::safe);
    const auto unsafe = count(FixSafety::unsafe);
    const auto manual = static_cast<std::size_t>(count(FixSafety::manual)) + shown_only;
    if (report.findings.empty()) {
      const bool all_read = std::ranges::none_of(report.not_measured, [](const NotMeasured& item) {
        return item.reason.starts_with("it was not read");
      });
      text_ += all_read ? paint_.good("nothing to fix") + "\n"
                        : std::string("nothing to fix in what could be read\n");
    } else {
      text_ += fmt::format("{} safe, {} unsafe, {} manual", safe, unsafe, manual);
      if (safe > 0)
        text_ += unsafe > 0 ? "; --apply writes the safe ones, --apply --unsafe all but the manual"
                            : "; --apply writes the safe ones";
      else if (unsafe > 0)
        text_ += "; --apply --unsafe writes the unsafe ones";
      text_ += "\n";
    }
    if (report.findings_left_out > 0)
      text_ += paint_.faint(fmt::format("{} left out by --select, --ignore or a comment",
                                        report.findings_left_out)) +
               "\n";
  }

  Painter paint_;
  std::size_t width_;
  std::string text_;
  std::optional<int> told_group_;
  std::string told_changes_;
};

}  // namespace

std::string FixText::render(const Report& report) const {
  return Writer(colors_, std::clamp<std::size_t>(width_.value_or(100), 60, 120)).text(report);
}

}  // namespace lockstep
