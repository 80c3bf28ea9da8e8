#include "fix/edit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kContext = 3;

// Lines with their endings, so that joining them gives the text back.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

// Whole lines before and after; `first` counts from 0.
struct Block {
  std::size_t first = 0;
  std::size_t count = 0;
  std::vector<std::string> after;
};

std::size_t lines_before(std::string_view text, std::size_t offset) {
  return static_cast<std::size_t>(
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

std::vector<Block> blocks_of(std::string_view before, const std::vector<Edit>& edits) {
  const auto lines = lines_of(before);
  std::vector<Block> blocks;
  for (std::size_t next = 0; next < edits.size();) {
    // Edits whose lines touch are one block.
    const std::size_t from = line_start(before, edits[next].from);
    std::size_t to = line_end(before, std::max(edits[next].to, edits[next].from));
    std::vector<Edit> within;
    for (; next < edits.size() && (within.empty() || edits[next].from < to ||
                                   (edits[next].from == to && to == before.size()));
         ++next) {
      to = std::max(to, line_end(before, edits[next].to));
      within.push_back({edits[next].from - from, edits[next].to - from, edits[next].text});
    }
    const std::string after = edited(before.substr(from, to - from), within);
    Block block{lines_before(before, from), lines_of(before.substr(from, to - from)).size(), {}};
    for (const std::string_view line : lines_of(after)) block.after.emplace_back(line);
    while (block.count > 0 && !block.after.empty() && lines[block.first] == block.after.front()) {
      ++block.first;
      --block.count;
      block.after.erase(block.after.begin());
    }
    while (block.count > 0 && !block.after.empty() &&
           lines[block.first + block.count - 1] == block.after.back()) {
      --block.count;
      block.after.pop_back();
    }
    if (block.count > 0 || !block.after.empty()) blocks.push_back(std::move(block));
  }
  return blocks;
}

void put_line(std::string& text, char mark, std::string_view line) {
  text += mark;
  text += line;
  if (!line.ends_with('\n')) text += "\n\\ No newline at end of file\n";
}

// Where each line begins, and the end of the text.
std::vector<std::size_t> line_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at = line_end(text, at)) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

std::string range_words(std::size_t first, std::size_t count) {
  if (count == 1) return fmt::format("{}", first + 1);
  return fmt::format("{},{}", count == 0 ? first : first + 1, count);
}

}  // namespace

std::vector<Edit> in_order(std::vector<Edit> edits) {
  std::ranges::stable_sort(edits, [](const Edit& a, const Edit& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
  });
  std::vector<Edit> once;
  for (Edit& edit : edits)
    if (std::ranges::find(once, edit) == once.end()) once.push_back(std::move(edit));
  return once;
}

bool overlap(const std::vector<Edit>& ordered) {
  for (std::size_t i = 1; i < ordered.size(); ++i)
    if (ordered[i].from < ordered[i - 1].to) return true;
  return false;
}

std::string edited(std::string_view source, const std::vector<Edit>& edits) {
  std::string text;
  std::size_t done = 0;
  for (const Edit& edit : edits) {
    text += source.substr(done, edit.from - done);
    text += edit.text;
    done = edit.to;
  }
  text += source.substr(done);
  return text;
}

std::string_view line_ending_of(std::string_view text) {
  const auto end = text.find('\n');
  return end != std::string_view::npos && end > 0 && text[end - 1] == '\r' ? "\r\n" : "\n";
}

std::size_t line_start(std::string_view text, std::size_t offset) {
  const auto before = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  return before == std::string_view::npos ? 0 : before + 1;
}

std::size_t line_end(std::string_view text, std::size_t offset) {
  // What ends with a line ends there: it does not reach into the next.
  if (offset > 0 && offset <= text.size() && text[offset - 1] == '\n' && offset == text.size())
    return offset;
  const auto end = text.find('\n', offset);
  return end == std::string_view::npos ? text.size() : end + 1;
}

int line_number(std::string_view text, std::size_t offset) {
  return static_cast<int>(lines_before(text, std::min(offset, text.size()))) + 1;
}

std::string_view indentation_at(std::string_view text, std::size_t offset) {
  const std::size_t start = line_start(text, offset);
  const auto end = text.find_first_not_of(" \t", start);
  return text.substr(start, (end == std::string_view::npos ? text.size() : end) - start);
}

std::string unified_diff(std::string_view name, std::string_view before,
                         const std::vector<Edit>& edits) {
  const auto blocks = blocks_of(before, in_order(edits));
  if (blocks.empty()) return "";
  const auto lines = lines_of(before);
  std::string text = fmt::format("--- a/{}\n+++ b/{}\n", name, name);
  std::ptrdiff_t shift = 0;  // of the lines after, by the blocks so far
  for (std::size_t next = 0; next < blocks.size();) {
    const std::size_t first = blocks[next].first - std::min(kContext, blocks[next].first);
    std::size_t last = next;
    while (last + 1 < blocks.size() &&
           blocks[last + 1].first <= blocks[last].first + blocks[last].count + 2 * kContext)
      ++last;
    const std::size_t end =
        std::min(lines.size(), blocks[last].first + blocks[last].count + kContext);
    std::string hunk;
    std::size_t line = first;
    std::size_t added = 0;
    for (std::size_t b = next; b <= last; ++b) {
      for (; line < blocks[b].first; ++line) put_line(hunk, ' ', lines[line]);
      for (; line < blocks[b].first + blocks[b].count; ++line) put_line(hunk, '-', lines[line]);
      for (const std::string& fresh : blocks[b].after) put_line(hunk, '+', fresh);
      added += blocks[b].after.size();
    }
    for (; line < end; ++line) put_line(hunk, ' ', lines[line]);
    std::size_t removed = 0;
    for (std::size_t b = next; b <= last; ++b) removed += blocks[b].count;
    const std::size_t after_count = end - first - removed + added;
    text += fmt::format(
        "@@ -{} +{} @@\n", range_words(first, end - first),
        range_words(static_cast<std::size_t>(static_cast<std::ptrdiff_t>(first) + shift),
                    after_count));
    text += hunk;
    shift += static_cast<std::ptrdiff_t>(added) - static_cast<std::ptrdiff_t>(removed);
    next = last + 1;
  }
  return text;
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

std::vector<FileDiff> files_of_diff(std::string_view diff) {
  std::vector<FileDiff> files;
  const auto lines = lines_of(diff);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // A removed line may start with "-- " and so look like a header: a header is followed by its
    // other half.
    if (lines[i].starts_with("--- ") && i + 1 < lines.size() && lines[i + 1].starts_with("+++ ") &&
        i + 2 < lines.size() && lines[i + 2].starts_with("@@ ")) {
      std::string_view name = trim(lines[i + 1].substr(4));
      if (name.starts_with("b/")) name.remove_prefix(2);
      files.push_back({std::string(name), ""});
      ++i;
      continue;
    }
    if (!files.empty()) files.back().hunks += lines[i];
  }
  return files;
}

std::optional<std::vector<Edit>> edits_of_diff(std::string_view before, std::string_view hunks) {
  const auto lines = lines_of(before);
  std::vector<std::size_t> starts = {0};
  for (const std::string_view line : lines) starts.push_back(starts.back() + line.size());
  const auto changes = lines_of(hunks);
  std::vector<Edit> edits;
  std::size_t line = 0;
  bool fresh = true;  // the next change starts an edit of its own
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string_view change = changes[i];
    if (change.starts_with("@@ -")) {
      const auto parts = split(change.substr(4, change.find(' ', 4) - 4), ',');
      const auto first = parse_unsigned(parts.front());
      if (!first) return std::nullopt;
      const bool adds_only = parts.size() > 1 && parts[1] == "0";
      const std::size_t start = adds_only || *first == 0 ? *first : *first - 1;
      if (start < line || start > lines.size()) return std::nullopt;
      line = start;
      fresh = true;
      continue;
    }
    if (change.starts_with("\\")) continue;
    std::string content(change.substr(1));
    if (i + 1 < changes.size() && changes[i + 1].starts_with("\\") && content.ends_with('\n'))
      content.pop_back();
    const bool adds = change.starts_with("+");
    if (!adds && !change.starts_with(" ") && !change.starts_with("-")) return std::nullopt;
    if (!adds && (line >= lines.size() || lines[line] != content)) return std::nullopt;
    if (change.starts_with(" ")) {
      ++line;
      fresh = true;
      continue;
    }
    if (fresh) edits.push_back({starts[line], starts[line], ""});
    fresh = false;
    if (adds)
      edits.back().text += content;
    else
      edits.back().to = starts[++line];
  }
  return edits;
}

}  // namespace lockstep
