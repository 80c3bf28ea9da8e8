// A word of a closed list: one that is written in the code is checked while it compiles, so that a
// typo is an error and not a word that nothing matches.
#pragma once

#include <mutex>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

namespace lockstep {

// `List::kWords`: the words, an array of std::string_view.
template <class List>
class KnownWord {
 public:
  KnownWord() = default;
  consteval KnownWord(const char* word) : text_(found(word)) {}  // NOLINT: implicit on purpose
  // As another program or version wrote it: a word that is not in the list is kept as it is, up to
  // a number that no honest file has.
  static KnownWord read(std::string_view word) {
    constexpr std::size_t kMostStrangers = 256;
    static std::mutex mutex;
    static std::set<std::string, std::less<>> strangers;
    for (const std::string_view known : List::kWords)
      if (known == word) return KnownWord(known, Checked{});
    const std::lock_guard lock(mutex);
    auto place = strangers.find(word);
    if (place == strangers.end() && strangers.size() < kMostStrangers)
      place = strangers.emplace(word).first;
    return place == strangers.end() ? KnownWord() : KnownWord(*place, Checked{});
  }

  constexpr std::string_view text() const { return text_; }
  constexpr bool operator==(const KnownWord&) const = default;

 private:
  struct Checked {};
  constexpr KnownWord(std::string_view text, Checked) : text_(text) {}
  static consteval std::string_view found(std::string_view word) {
    for (const std::string_view known : List::kWords)
      if (known == word) return known;
    throw "no such word in the list";
  }

  std::string_view text_;  // of the list, or of a stranger that is never forgotten
};

template <class List>
std::ostream& operator<<(std::ostream& stream, const KnownWord<List>& word) {
  return stream << word.text();
}

}  // namespace lockstep
