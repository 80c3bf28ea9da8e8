// Texts that repeat, each kept once and known by a number.
//
// A trace of a million rows has some thousand different names, kernel names of several hundred
// characters among them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep {

class NameTable {
 public:
  using Id = std::uint32_t;

  // The number of a text: the same for the same text.
  Id intern(std::string_view text) {
    if (2 * (texts_.size() + 1) > slots_.size()) grow();
    const std::uint64_t hash = hash_of(text);
    for (std::size_t slot = hash & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
      Slot& entry = slots_[slot];
      if (entry.id_and_one == 0) {
        entry = {static_cast<std::uint32_t>(hash >> 32U), static_cast<Id>(texts_.size() + 1)};
        texts_.push_back(kept(text));
        return entry.id_and_one - 1;
      }
      if (entry.hash == static_cast<std::uint32_t>(hash >> 32U) &&
          texts_[entry.id_and_one - 1] == text)
        return entry.id_and_one - 1;
    }
  }

  std::string_view operator[](Id id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    Id id_and_one = 0;  // 0: empty
  };

  // Eight bytes at a time; the constant is the golden ratio's, which spreads bits upwards.
  static std::uint64_t hash_of(std::string_view text) {
    constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15ULL;
    std::uint64_t hash = text.size() * kSpread;
    const char* at = text.data();
    std::size_t left = text.size();
    for (; left >= 8; left -= 8, at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, 8);
      hash = (hash ^ word) * kSpread;
      hash ^= hash >> 29U;
    }
    std::uint64_t last = 0;
    if (left > 0) std::memcpy(&last, at, left);
    hash = (hash ^ last) * kSpread;
    return hash ^ (hash >> 32U);
  }

  std::string_view kept(std::string_view text) {
    constexpr std::size_t kBlock = 64U << 10U;
    if (text.size() > room_) {
      const std::size_t size = text.size() > kBlock ? text.size() : kBlock;
      blocks_.push_back(std::make_unique<char[]>(size));
      free_ = blocks_.back().get();
      room_ = size;
    }
    if (text.empty()) return {};
    std::memcpy(free_, text.data(), text.size());
    const std::string_view result(free_, text.size());
    free_ += text.size();
    room_ -= text.size();
    return result;
  }

  void grow() {
    std::vector<Slot> larger(slots_.empty() ? 1024 : 2 * slots_.size());
    for (Id id = 0; id < texts_.size(); ++id) {
      const std::uint64_t hash = hash_of(texts_[id]);
      std::size_t slot = hash & (larger.size() - 1);
      while (larger[slot].id_and_one != 0) slot = (slot + 1) & (larger.size() - 1);
      larger[slot] = {static_cast<std::uint32_t>(hash >> 32U), id + 1};
    }
    slots_ = std::move(larger);
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  std::vector<std::string_view> texts_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace lockstep
