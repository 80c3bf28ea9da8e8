#include "fix/settings/argument_set.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "fix/syntax/yaml_value.hpp"

namespace lockstep {
namespace {

std::size_t after_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  return at;
}

// Before the line's ending, whichever it is.
std::size_t end_of_words(std::string_view text, std::size_t offset) {
  std::size_t end = text.find('\n', offset);
  if (end == std::string_view::npos) return text.size();
  return end > 0 && text[end - 1] == '\r' ? end - 1 : end;
}

bool starts_its_line(std::string_view text, std::size_t offset) {
  return trim(text.substr(line_start(text, offset), offset - line_start(text, offset))).empty();
}

std::string unquoted_word(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

// What YAML and JSON scalars mean; a YAML `1e-4` is a string to PyYAML, but no setting here cares.
void read_scalar(Setting& setting, std::string_view text) {
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  if (!quoted && (text == "true" || text == "True" || text == "yes" || text == "on"))
    setting.truth = true;
  else if (!quoted && (text == "false" || text == "False" || text == "no" || text == "off"))
    setting.truth = false;
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!quoted && failed == std::errc() && end == text.data() + text.size()) setting.number = number;
  if (!setting.truth && !setting.number) setting.word = unquoted_word(text);
}

}  // namespace

ArgumentSet ArgumentSet::of_call(const PythonCall& call) {
  ArgumentSet set;
  set.carrier_ = Carrier::python;
  set.node_ = call.list;
  set.span_ = call.list;
  set.open_ = call.has_splat;
  for (const PythonArgument& item : call.arguments) {
    if (item.name.empty()) continue;
    set.settings_.push_back({item.name, item.whole.field("name"), item.value, item.whole,
                             bool_value(item.value), number_value(item.value),
                             string_value(item.value)});
  }
  return set;
}

ArgumentSet ArgumentSet::of_yaml(Node block_mapping) {
  ArgumentSet set;
  set.carrier_ = Carrier::yaml;
  set.node_ = block_mapping;
  set.span_ = block_mapping;
  for (const Node& pair : block_mapping.children()) {
    if (!pair.is("block_mapping_pair")) continue;
    // A change of what has an anchor would reach every alias.
    const bool shared = !pair.field("value").descendants("anchor").empty();
    const Node value = shared ? Node() : yaml_value(pair.field("value"));
    Setting setting{
        unquoted_word(pair.field("key").text()), pair.field("key"), value, pair, {}, {}, {}};
    if (setting.name == "<<") set.open_ = true;
    if (value.is("plain_scalar") || value.is("double_quote_scalar") ||
        value.is("single_quote_scalar"))
      read_scalar(setting, value.text());
    set.settings_.push_back(std::move(setting));
  }
  return set;
}

ArgumentSet ArgumentSet::of_json(Node object) {
  ArgumentSet set;
  set.carrier_ = Carrier::json;
  set.node_ = object;
  set.span_ = object;
  for (const Node& pair : object.children()) {
    if (!pair.is("pair")) continue;
    Setting setting{unquoted_word(pair.field("key").text()),
                    pair.field("key"),
                    pair.field("value"),
                    pair,
                    {},
                    {},
                    {}};
    if (!pair.field("value").is("object") && !pair.field("value").is("array"))
      read_scalar(setting, setting.value.text());
    set.settings_.push_back(std::move(setting));
  }
  return set;
}

ArgumentSet ArgumentSet::of_command(const CommandLineInText& line, std::size_t first_word) {
  ArgumentSet set;
  set.carrier_ = Carrier::command;
  const auto& words = line.words;
  for (std::size_t i = first_word; i < words.size(); ++i) {
    const CommandWord& word = words[i];
    if (!set.span_) set.span_ = TextSpan(word.from, word.raw);
    if (!word.value) set.open_ = true;  // "$EXTRA_ARGS" may be anything
    const std::string_view raw = word.raw;
    if (!raw.starts_with("--") || raw.size() < 3) continue;
    const auto equals = raw.find('=');
    const std::string_view name = raw.substr(2, std::min(equals, raw.size()) - 2);
    Setting setting{
        std::string(name), TextSpan(word.from + 2, name), {}, TextSpan(word.from, raw), {}, {}, {}};
    std::ranges::replace(setting.name, '-', '_');
    // What is written in quotes or over a variable is read, and left as it stands.
    if (equals != std::string_view::npos) {
      if (word.value) read_scalar(setting, std::string_view(*word.value).substr(equals + 1));
      if (word.value == word.raw)
        setting.value = TextSpan(word.from + equals + 1, raw.substr(equals + 1));
    } else if (i + 1 < words.size() && !words[i + 1].raw.starts_with("--")) {
      const CommandWord& value = words[++i];
      if (value.value) read_scalar(setting, *value.value);
      if (value.value == value.raw) setting.value = TextSpan(value.from, value.raw);
    } else {
      setting.truth = true;
    }
    set.settings_.push_back(std::move(setting));
  }
  return set;
}

const Setting* ArgumentSet::find(std::string_view name) const {
  for (const Setting& setting : settings_)
    if (setting.name == name) return &setting;
  return nullptr;
}

std::optional<double> ArgumentSet::number(std::string_view name) const {
  const Setting* const setting = find(name);
  return setting == nullptr ? std::nullopt : setting->number;
}
std::optional<bool> ArgumentSet::truth(std::string_view name) const {
  const Setting* const setting = find(name);
  return setting == nullptr ? std::nullopt : setting->truth;
}
std::optional<std::string> ArgumentSet::word(std::string_view name) const {
  const Setting* const setting = find(name);
  return setting == nullptr ? std::nullopt : setting->word;
}

bool ArgumentSet::can_grow() const { return !settings_.empty() && carrier_ != Carrier::command; }

std::string ArgumentSet::written(std::string_view value) const {
  if (carrier_ == Carrier::python) return std::string(value);
  if (carrier_ == Carrier::command) return unquoted_word(value);
  if (value == "True") return "true";
  if (value == "False") return "false";
  if (value == "None") return "null";
  if (carrier_ == Carrier::yaml && value.starts_with('"')) return unquoted_word(value);
  return std::string(value);
}

bool ArgumentSet::says(std::string_view name, std::string_view value) const {
  const Setting* const setting = find(name);
  return setting != nullptr && setting->value.text() == written(value);
}

std::vector<Edit> ArgumentSet::set(std::string_view text, std::string_view name,
                                   std::string_view value) const {
  const Setting* const setting = find(name);
  if (setting == nullptr) return add(text, name, value);
  if (!setting->value) return {};  // empty, or shared by an anchor
  return {{setting->value.from(), setting->value.to(), written(value)}};
}

std::vector<Edit> ArgumentSet::rename(const Setting& setting, std::string_view name) const {
  const std::string_view old = setting.key.text();
  const bool quoted = old.starts_with('"') || old.starts_with('\'');
  return {{setting.key.from() + (quoted ? 1 : 0), setting.key.to() - (quoted ? 1 : 0),
           std::string(name)}};
}

std::vector<Edit> ArgumentSet::add(std::string_view text, std::string_view name,
                                   std::string_view value) const {
  if (carrier_ == Carrier::command || (settings_.empty() && (carrier_ != Carrier::python || open_)))
    return {};
  const std::string_view line_ending = line_ending_of(text);
  if (carrier_ == Carrier::yaml) {
    // Under the last plain setting: what nests below the last key would take a new line into it.
    const Setting* anchor = &settings_.front();
    for (const Setting& setting : settings_)
      if ((setting.truth || setting.number || setting.word) &&
          setting.whole.from() > anchor->whole.from())
        anchor = &setting;
    const std::string_view indent = indentation_at(text, anchor->whole.from());
    // "- key:" counts too
    const std::string own_indent(anchor->whole.from() - line_start(text, anchor->whole.from()),
                                 ' ');
    return {{end_of_words(text, anchor->whole.to()), end_of_words(text, anchor->whole.to()),
             std::string(line_ending) +
                 (indent.size() == own_indent.size() ? std::string(indent) : own_indent) +
                 std::string(name) + ": " + written(value)}};
  }
  const std::string entry = carrier_ == Carrier::json
                                ? "\"" + std::string(name) + "\": " + written(value)
                                : std::string(name) + "=" + written(value);
  // Arguments after the last named one (a splat) stay behind it.
  TextSpan last = settings_.empty() ? TextSpan() : settings_.back().whole;
  if (!last)
    for (const Node& item : node_.children())
      if (!item.is("comment")) last = item;
  if (!last)
    return node_.children().empty() ? std::vector<Edit>{{node_.from() + 1, node_.to() - 1, entry}}
                                    : std::vector<Edit>{};
  const std::size_t end = last.to();
  if (!starts_its_line(text, last.from())) return {{end, end, ", " + entry}};
  const std::string fresh_line =
      std::string(line_ending) + std::string(indentation_at(text, last.from())) + entry;
  if (carrier_ == Carrier::json) return {{end, end, "," + fresh_line}};
  const std::size_t next = after_spaces(text, end);
  const bool comma = next < text.size() && text[next] == ',';
  const std::size_t words_end = end_of_words(text, end);
  const bool more_on_line = after_spaces(text, comma ? next + 1 : end) < words_end;
  if (comma && !(more_on_line && text[after_spaces(text, next + 1)] != '#'))
    return {{words_end, words_end, fresh_line + ","}};
  if (comma) return {{end, end, ", " + entry}};
  const bool comment = more_on_line && text[after_spaces(text, end)] == '#';
  if (!comment) return {{end, end, "," + fresh_line}};
  return {{end, end, ","}, {words_end, words_end, fresh_line + ","}};
}

namespace {

std::vector<Edit> without_range(std::string_view text, std::size_t from, std::size_t to) {
  const std::size_t next = after_spaces(text, to);
  const bool comma = next < text.size() && text[next] == ',';
  const std::size_t after = comma ? next + 1 : to;
  const std::size_t rest = after_spaces(text, after);
  const bool line_is_over =
      rest >= text.size() || text[rest] == '\n' || text[rest] == '\r' || text[rest] == '#';
  if (starts_its_line(text, from) && line_is_over) {
    // the user's words stay
    if (rest < text.size() && text[rest] == '#') return {{from, rest, ""}};
    return {{line_start(text, from), line_end(text, rest), ""}};
  }
  if (comma) return {{from, after_spaces(text, after), ""}};
  // The last of a line: the comma before it goes too.
  std::size_t before = from;
  while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t' ||
                        text[before - 1] == '\n' || text[before - 1] == '\r'))
    --before;
  if (before > 0 && text[before - 1] == ',') from = before - 1;
  return {{from, to, ""}};
}

}  // namespace

std::vector<Edit> without_items(std::string_view text, std::vector<TextSpan> items) {
  std::ranges::sort(items, {}, &TextSpan::from);
  std::vector<Edit> edits;
  for (std::size_t first = 0; first < items.size();) {
    // Neighbours on one line go as one: each for itself they would fight over the comma between
    // them.
    std::size_t last = first;
    while (last + 1 < items.size() &&
           trim(text.substr(items[last].to(), items[last + 1].from() - items[last].to())) == "," &&
           line_start(text, items[last + 1].from()) == line_start(text, items[last].from()))
      ++last;
    for (Edit& edit : without_range(text, items[first].from(), items[last].to()))
      edits.push_back(std::move(edit));
    first = last + 1;
  }
  return edits;
}

std::vector<Edit> ArgumentSet::remove(std::string_view text, const Setting& setting) const {
  if (carrier_ == Carrier::command) {
    // With the blanks before it, and the backslash of a line of its own.
    const auto before = text.substr(0, setting.whole.from()).find_last_not_of(" \t\r\n\\");
    const std::size_t from = before == std::string_view::npos ? 0 : before + 1;
    return {{from, setting.value ? setting.value.to() : setting.whole.to(), ""}};
  }
  if (carrier_ == Carrier::yaml) {
    if (starts_its_line(text, setting.whole.from()))
      return {{line_start(text, setting.whole.from()),
               line_end(text, std::max<std::size_t>(1, setting.whole.to()) - 1), ""}};
    // The first of a list's item: its dash stays for the next.
    for (const Setting& next : settings_)
      if (next.whole.from() > setting.whole.from())
        return {{setting.whole.from(), next.whole.from(), ""}};
    return {};
  }
  if (carrier_ == Carrier::json) {
    // JSON has no comma before its closing bracket.
    const std::size_t next = text.find_first_not_of(" \t\r\n", setting.whole.to());
    if (next != std::string_view::npos && text[next] == ',')
      return without_items(text, {setting.whole});
    std::size_t from = setting.whole.from();
    while (from > 0 && std::string_view(" \t\r\n").find(text[from - 1]) != std::string_view::npos)
      --from;
    if (from > 0 && text[from - 1] == ',') --from;
    return {{from, setting.whole.to(), ""}};
  }
  return without_items(text, {setting.whole});
}

}  // namespace lockstep
