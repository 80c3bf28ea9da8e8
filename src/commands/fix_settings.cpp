#include "commands/fix_settings.hpp"

#include <fmt/format.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Error wrong(const std::string& file, const std::string& what) {
  return usage_error(fmt::format("{}: [tool.lockstep] {}", printable(file), what),
                     "it may hold select, ignore, exclude (lists of words) and per-file-ignores (a "
                     "table of such lists)");
}

Result<std::vector<std::string>> words_of(const toml::node& node, const std::string& file,
                                          const std::string& key) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) return wrong(file, fmt::format("{} is no list", printable(key)));
  std::vector<std::string> words;
  for (const toml::node& item : *list) {
    const auto word = item.value<std::string>();
    if (!word) return wrong(file, fmt::format("{} holds what is no word", printable(key)));
    words.push_back(*word);
  }
  return words;
}

Result<FixSettings> settings_in(const toml::table& table, const std::string& file) {
  FixSettings settings;
  settings.file = file;
  for (const auto& [name, node] : table) {
    const std::string key(name.str());
    if (key == "select") {
      settings.select = TRY(words_of(node, file, key));
    } else if (key == "ignore") {
      settings.ignore = TRY(words_of(node, file, key));
    } else if (key == "exclude") {
      settings.exclude = TRY(words_of(node, file, key));
    } else if (key == "per-file-ignores") {
      const toml::table* const files = node.as_table();
      if (files == nullptr) return wrong(file, "per-file-ignores is no table");
      for (const auto& [pattern, codes] : *files)
        settings.per_file_ignores.emplace_back(std::string(pattern.str()),
                                               TRY(words_of(codes, file, key)));
    } else {
      return wrong(file, fmt::format("does not know '{}'", printable(key)));
    }
  }
  return settings;
}

}  // namespace

Result<FixSettings> fix_settings_of(const fs::path& folder) {
  std::error_code failed;
  for (fs::path at = fs::absolute(folder, failed).lexically_normal();; at = at.parent_path()) {
    const fs::path file = at / "pyproject.toml";
    if (fs::is_regular_file(file, failed)) {
      constexpr std::size_t kLargest = 4U << 20U;
      const auto text = read_small_file(file, kLargest);
      const auto parsed = toml::parse(text.value_or(""));
      // Somebody else's mistake is theirs to tell, unless lockstep is spoken of.
      if (!parsed) {
        if (text && text->find("[tool.lockstep") != std::string::npos)
          return wrong(file.string(), fmt::format("cannot be read: line {}: {}",
                                                  parsed.error().source().begin.line,
                                                  parsed.error().description()));
      } else if (const toml::table* const table =
                     parsed.table().at_path("tool.lockstep").as_table()) {
        return settings_in(*table, file.string());
      }
    }
    if (!at.has_relative_path() || fs::exists(at / ".git", failed)) return FixSettings{};
  }
}

}  // namespace lockstep
