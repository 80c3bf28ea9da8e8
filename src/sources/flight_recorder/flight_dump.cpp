#include "sources/flight_recorder/flight_dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "base/file.hpp"
#include "base/rank_of_file.hpp"
#include "base/text.hpp"
#include "sources/flight_recorder/data_tree.hpp"

namespace lockstep {
namespace {

using Dictionary = DataTree::Dictionary;
using List = DataTree::List;
using Value = DataTree::Value;

constexpr std::size_t kLargestDump = std::size_t{1} << 30U;

const Value* entry_of(const Dictionary& dictionary, std::string_view key) {
  const auto found = dictionary.entries.find(key);
  return found == dictionary.entries.end() ? nullptr : &found->second;
}

const Dictionary* dictionary_in(const Dictionary& dictionary, std::string_view key) {
  const Value* const value = entry_of(dictionary, key);
  const auto* const found = value == nullptr ? nullptr : std::get_if<const Dictionary*>(value);
  return found == nullptr ? nullptr : *found;
}

const List* list_in(const Dictionary& dictionary, std::string_view key) {
  const Value* const value = entry_of(dictionary, key);
  const auto* const found = value == nullptr ? nullptr : std::get_if<const List*>(value);
  return found == nullptr ? nullptr : *found;
}

std::string text_under(const Dictionary& dictionary, std::string_view key) {
  const Value* const value = entry_of(dictionary, key);
  const auto* const found = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return found == nullptr ? std::string() : *found;
}

std::optional<std::int64_t> number_under(const Dictionary& dictionary, std::string_view key) {
  const Value* const value = entry_of(dictionary, key);
  const auto* const found = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// "[[1024], [2, 3]]", two levels: shapes have no more.
std::string shape_words(const List* list, int depth = 0) {
  constexpr std::size_t kMost = 16;
  if (list == nullptr || depth > 2) return "[]";
  std::string words = "[";
  for (std::size_t i = 0; i < list->items.size() && i < kMost; ++i) {
    if (i > 0) words += ", ";
    if (const auto* number = std::get_if<std::int64_t>(&list->items[i]))
      words += std::to_string(*number);
    else if (const auto* inner = std::get_if<const List*>(&list->items[i]))
      words += shape_words(*inner, depth + 1);
    else
      words += "?";
  }
  return words + "]";
}

// The innermost line that is no library's.
std::optional<SourceLine> own_line(const List* frames) {
  if (frames == nullptr) return std::nullopt;
  for (const Value& value : frames->items) {
    const auto* const frame = std::get_if<const Dictionary*>(&value);
    if (frame == nullptr) continue;
    const std::string file = text_under(**frame, "filename");
    const auto line = number_under(**frame, "line");
    if (!file.ends_with(".py") || !line || *line <= 0 || *line > INT32_MAX) continue;
    if (file.find("site-packages/") != std::string::npos ||
        file.find("/lib/python") != std::string::npos ||
        file.find("dist-packages/") != std::string::npos)
      continue;
    return SourceLine{file, static_cast<int>(*line)};
  }
  return std::nullopt;
}

// "[0, 1, 2]", as the configuration writes it.
std::vector<int> ranks_in(const std::string& text) {
  std::vector<int> ranks;
  std::string_view rest = text;
  while (!rest.empty() && ranks.size() < 100'000) {
    const std::size_t from = rest.find_first_of("0123456789");
    if (from == std::string_view::npos) break;
    rest.remove_prefix(from);
    const std::size_t length = std::min(rest.size(), rest.find_first_not_of("0123456789"));
    if (const auto number = parse_integer(rest.substr(0, length)); number && *number < 1'000'000)
      ranks.push_back(static_cast<int>(*number));
    rest.remove_prefix(length);
  }
  return ranks;
}

void take_groups(const Dictionary& root, FlightDump& dump) {
  const Dictionary* const configuration = dictionary_in(root, "pg_config");
  if (configuration == nullptr) return;
  for (const auto& [name, value] : configuration->entries) {
    const auto* const group = std::get_if<const Dictionary*>(&value);
    if (group == nullptr) continue;
    dump.groups[name] = ranks_in(text_under(**group, "ranks"));
    dump.descriptions[name] = text_under(**group, "desc");
  }
}

bool is_true(const Dictionary& dictionary, std::string_view key) {
  const Value* const value = entry_of(dictionary, key);
  const auto* const flag = value == nullptr ? nullptr : std::get_if<bool>(value);
  return flag != nullptr && *flag;
}

FlightEntry entry_from(const Dictionary& told, FlightDump& dump) {
  FlightEntry entry;
  // its name, and what it is for
  if (const List* const group = list_in(told, "process_group");
      group != nullptr && !group->items.empty()) {
    if (const auto* name = std::get_if<std::string>(&group->items.front())) entry.group = *name;
    if (group->items.size() > 1)
      if (const auto* words = std::get_if<std::string>(&group->items[1]))
        dump.descriptions[entry.group] = *words;
  }
  entry.sequence =
      number_under(told, "collective_seq_id").value_or(number_under(told, "seq_id").value_or(0));
  entry.operation = text_under(told, "profiling_name");
  // nccl:, gloo:
  if (const auto colon = entry.operation.find(':'); colon != std::string::npos)
    entry.operation.erase(0, colon + 1);
  entry.shape = shape_words(list_in(told, "input_sizes"));
  const std::string state = text_under(told, "state");
  entry.started = state == "started" || state == "completed";
  entry.completed = state == "completed";
  entry.given_up = is_true(told, "retired");
  entry.between_two = is_true(told, "is_p2p");
  entry.where = own_line(list_in(told, "frames"));
  return entry;
}

}  // namespace

bool looks_like_flight_dump(std::string_view start) {
  if (start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) return true;
  return trim(start).starts_with('{') && start.find("\"entries\"") != std::string_view::npos &&
         (start.find("\"pg_config\"") != std::string_view::npos ||
          start.find("\"collective_seq_id\"") != std::string_view::npos);
}

Result<FlightDump> parse_flight_dump(std::string_view bytes, const std::string& name) {
  auto tree = TRY(!bytes.empty() && bytes.front() == '\x80' ? read_pickle(bytes, name)
                                                            : read_json(bytes, name));
  const auto* const root = std::get_if<const Dictionary*>(&tree.root);
  const List* const entries = root == nullptr ? nullptr : list_in(**root, "entries");
  if (entries == nullptr)
    return Error{
        fmt::format("{} is no dump of the flight recorder: it has no entries", printable(name)),
        "give the files that TORCH_NCCL_DEBUG_INFO_TEMP_FILE names, one a rank"};
  FlightDump dump;
  dump.file = name;
  if (const auto rank = number_under(**root, "rank"); rank && *rank >= 0 && *rank < 1'000'000)
    dump.told_rank = static_cast<int>(*rank);
  take_groups(**root, dump);
  for (const Value& value : entries->items)
    if (const auto* entry = std::get_if<const Dictionary*>(&value))
      dump.entries.push_back(entry_from(**entry, dump));
  return dump;
}

Result<std::vector<FlightDump>> read_flight_dumps(const std::vector<std::string>& paths) {
  std::vector<FlightDump> dumps;
  for (const std::string& path : paths) {
    const auto bytes = read_small_file(path, kLargestDump);
    if (!bytes) return cannot_read(path, errno);
    auto dump = TRY(parse_flight_dump(*bytes, path));
    dumps.push_back(std::move(dump));
  }
  std::set<int> ranks;
  bool known = true;
  for (FlightDump& dump : dumps) {
    const auto rank = dump.told_rank ? dump.told_rank : rank_of_file(dump.file);
    known = known && rank && ranks.insert(*rank).second;
    dump.rank = rank.value_or(0);
  }
  if (!known)
    for (std::size_t i = 0; i < dumps.size(); ++i) {
      dumps[i].rank = static_cast<int>(i);
      dumps[i].rank_is_a_guess = true;
    }
  std::ranges::stable_sort(
      dumps, [](const FlightDump& a, const FlightDump& b) { return a.rank < b.rank; });
  return dumps;
}

}  // namespace lockstep
