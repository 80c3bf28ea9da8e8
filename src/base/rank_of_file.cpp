#include "base/rank_of_file.hpp"

#include <filesystem>
#include <string_view>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kDigits = "0123456789";

// The last number in it: behind it may stand an ending.
std::optional<int> last_number(std::string_view name) {
  constexpr std::int64_t kMost = 1'000'000;
  const auto last = name.find_last_of(kDigits);
  if (last == std::string_view::npos) return std::nullopt;
  const auto before = name.find_last_not_of(kDigits, last);
  const auto from = before == std::string_view::npos ? 0 : before + 1;
  const auto number = parse_integer(name.substr(from, last + 1 - from));
  return number && *number < kMost ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

}  // namespace

std::optional<int> rank_of_file(const std::string& path) {
  const std::filesystem::path file(path);
  if (const auto rank = last_number(file.filename().string())) return rank;
  const std::string folder = file.parent_path().filename().string();
  const bool is_a_number = folder.find_first_not_of(kDigits) == std::string::npos;
  return is_a_number ? last_number(folder) : std::nullopt;
}

}  // namespace lockstep
