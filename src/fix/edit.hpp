// Changes to a text as byte ranges with new text: everything outside them stays as it is, to the
// byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

struct Edit {
  std::size_t from = 0;
  std::size_t to = 0;
  std::string text;

  bool operator==(const Edit&) const = default;
};

// In order, each once: two rules that both need `import os` insert it once.
std::vector<Edit> in_order(std::vector<Edit> edits);
// Whether two edits in order touch the same bytes. Insertions at one place do not: they follow each
// other.
bool overlap(const std::vector<Edit>& ordered);
std::string edited(std::string_view source, const std::vector<Edit>& edits);

// "\r\n" where the text's lines end so, else "\n".
std::string_view line_ending_of(std::string_view text);
// The first byte of the line, and the byte after its end (with the line ending).
std::size_t line_start(std::string_view text, std::size_t offset);
std::size_t line_end(std::string_view text, std::size_t offset);
// 1 for the first.
int line_number(std::string_view text, std::size_t offset);
// The white space that the line of the offset starts with.
std::string_view indentation_at(std::string_view text, std::size_t offset);

// As `diff -u` prints it, with three lines of context. Empty when nothing changes.
std::string unified_diff(std::string_view name, std::string_view before,
                         const std::vector<Edit>& edits);

// What makes one text of the other, as changes of whole lines.
std::vector<Edit> line_edits(std::string_view before, std::string_view after);

// The files that a unified diff names after `+++ b/`, and what it does to one as edits. Strict:
// every line must stand where the diff says, so that a file that has changed since is refused and
// not guessed at.
struct FileDiff {
  std::string name;
  std::string hunks;
};
std::vector<FileDiff> files_of_diff(std::string_view diff);
std::optional<std::vector<Edit>> edits_of_diff(std::string_view before, std::string_view hunks);

}  // namespace lockstep
