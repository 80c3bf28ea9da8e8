#include "fix/shell/launch_lines.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

using Value = std::optional<std::string>;

// Reads the commands of one Bash tree from top to bottom and keeps the variables that are known on the way.
class ShellReader {
 public:
  explicit ShellReader(std::map<std::string, Value> known) : variables_(std::move(known)) {}

  std::vector<CommandLineInText> read(const SyntaxTree& tree) {
    std::vector<CommandLineInText> commands;
    for (std::uint32_t index = 0; index < tree.size(); ++index) {
      const Node node = tree.at(index);
      if (!node.is_named()) continue;
      const std::string_view kind = node.kind();
      if (kind == "variable_assignment") assign(node);
      else if (kind == "declaration_command") declare(node);
      else if (kind == "command" && !node.enclosing("command_substitution")) commands.push_back(command(node));
    }
    return commands;
  }

 private:
  void assign(Node node) {
    if (node.parent().is("command") || node.parent().is("declaration_command")) return;  // X=1 cmd is the command's own
    set(std::string(node.field("name").text()), evaluated(node.field("value")), node);
  }

  void set(const std::string& name, Value value, Node node) {
    // What is set under a condition may be anything afterwards, unless it is the same.
    const bool conditional = node.enclosing("if_statement") || node.enclosing("case_statement") || is_in_loop(node) || node.enclosing("function_definition");
    const auto before = variables_.find(name);
    if (conditional && (before == variables_.end() || before->second != value)) value = std::nullopt;
    variables_[name] = std::move(value);
  }

  void declare(Node node) {
    const bool exports = node.text().starts_with("export") || node.text().starts_with("declare -x");
    for (const Node& item : node.children()) {
      if (item.is("variable_assignment")) {
        const std::string name(item.field("name").text());
        set(name, evaluated(item.field("value")), node);
        if (exports) exported_.insert(name);
      } else if (item.is("variable_name") && exports) {
        exported_.insert(std::string(item.text()));
      }
    }
  }

  static bool is_in_loop(Node node) { return node.enclosing("for_statement") || node.enclosing("while_statement") || node.enclosing("c_style_for_statement"); }

  static bool is_in_background(Node node) {
    while (node.parent().is("redirected_statement") || node.parent().is("pipeline") || node.parent().is("list")) node = node.parent();
    const auto siblings = node.parent().all_children();
    const auto own = std::find(siblings.begin(), siblings.end(), node);
    return own != siblings.end() && own + 1 != siblings.end() && (own + 1)->text() == "&";
  }

  CommandLineInText command(Node node) {
    CommandLineInText line;
    line.from = node.from();
    line.to = node.to();
    for (const std::string& name : exported_)
      if (const auto found = variables_.find(name); found != variables_.end()) line.environment[name] = found->second;
    for (const Node& item : node.children()) {
      if (item.is("variable_assignment")) line.environment[std::string(item.field("name").text())] = evaluated(item.field("value"));
      else if (item.is("command_name")) line.words.push_back(word(item.child(0) ? item.child(0) : item));
      else if (!item.is("file_redirect") && !item.is("herestring_redirect") && !item.is("heredoc_redirect") && !item.is("comment")) line.words.push_back(word(item));
    }
    line.folder = folder_;
    line.in_loop = is_in_loop(node);
    line.in_background = is_in_background(node);
    note_change_of_folder(line);
    return line;
  }

  void note_change_of_folder(const CommandLineInText& line) {
    if (line.words.size() < 2 || line.words[0].value != "cd") return;
    const Value& target = line.words[1].value;
    if (!target || !folder_) folder_ = std::nullopt;
    else if (target->starts_with("/")) folder_ = *target;
    else folder_ = folder_->empty() ? *target : *folder_ + "/" + *target;
  }

  CommandWord word(Node node) const { return {node.from(), node.to(), std::string(node.text()), evaluated(node)}; }

  Value variable(std::string_view name) const {
    const auto found = variables_.find(std::string(name));
    return found == variables_.end() ? std::nullopt : found->second;
  }

  Value evaluated(Node node) const {
    if (!node) return "";
    const std::string_view kind = node.kind();
    if (kind == "word" || kind == "number" || kind == "string_content" || kind == "variable_name") {
      std::string text;
      for (const char c : node.text())
        if (c != '\\') text += c;
      return text;
    }
    if (kind == "raw_string") return node.text().size() >= 2 ? Value(std::string(node.text().substr(1, node.text().size() - 2))) : std::nullopt;
    if (kind == "simple_expansion") return variable(node.text().substr(1));
    if (kind == "expansion") return expansion(node);
    if (kind == "command_substitution") return is_own_folder(node) ? Value(".") : std::nullopt;
    if (kind != "string" && kind != "concatenation" && kind != "command_name") return std::nullopt;
    std::string text;
    for (const Node& part : node.all_children()) {
      if (!part.is_named()) {
        if (part.text() == "\"") continue;
        text += part.text();
        continue;
      }
      const Value value = evaluated(part);
      if (!value) return std::nullopt;
      text += *value;
    }
    return text;
  }

  // ${NAME} and ${NAME:-default}
  Value expansion(Node node) const {
    std::string_view inner = node.text();
    if (!inner.starts_with("${") || !inner.ends_with("}")) return std::nullopt;
    inner = inner.substr(2, inner.size() - 3);
    const auto end = inner.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    const Value known = variable(inner.substr(0, end));
    if (end == std::string_view::npos) return known;
    const std::string_view rest = inner.substr(end);
    if (!rest.starts_with(":-") && !rest.starts_with("-")) return std::nullopt;
    if (known && !known->empty()) return known;
    const std::string_view fallback = rest.substr(rest.find('-') + 1);
    return fallback.find_first_of("$`\"'\\") == std::string_view::npos ? Value(std::string(fallback)) : std::nullopt;
  }

  // $(dirname "$0") in all its spellings
  static bool is_own_folder(Node node) {
    const std::string_view text = node.text();
    return text.find("dirname") != std::string_view::npos && (text.find("$0") != std::string_view::npos || text.find("BASH_SOURCE") != std::string_view::npos);
  }

  std::map<std::string, Value> variables_;
  std::set<std::string> exported_;
  Value folder_ = "";
};

// A copy of the text's length with nothing in it but line ends.
std::string blank_copy(std::string_view text) {
  std::string shown(text);
  for (char& c : shown)
    if (c != '\n') c = ' ';
  return shown;
}

// `shown` is what a shell would see, as long as the text itself.
void read_part(ShellText& into, const std::string& shown, std::string_view text, std::map<std::string, Value> known, Node owner, bool quoted) {
  const auto tree = SyntaxTree::parse(Language::bash, shown);
  if (!tree) return;
  for (CommandLineInText& line : ShellReader(std::move(known)).read(*tree)) {
    for (CommandWord& word : line.words) word.raw = text.substr(word.from, word.to - word.from);
    line.owner = owner;
    line.quoted_for_yaml = quoted;
    into.commands.push_back(std::move(line));
  }
}

// Make's own variables and its doubled dollars, as a shell would have them and as long as they were.
void to_shell_variables(std::string& shown) {
  for (std::size_t i = 0; i + 1 < shown.size(); ++i) {
    if (shown[i] != '$') continue;
    if (shown[i + 1] == '$') {
      shown[i++] = ' ';
    } else if (shown[i + 1] == '(') {
      const auto end = shown.find(')', i);
      const bool plain = end != std::string::npos && std::all_of(shown.begin() + static_cast<std::ptrdiff_t>(i) + 2, shown.begin() + static_cast<std::ptrdiff_t>(end),
                                                                  [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
      if (!plain) continue;
      shown[i + 1] = '{';
      shown[end] = '}';
    }
  }
}

// ${{ inputs.x }} of Azure ML and GitHub is known to the platform alone.
void hide_templates(std::string& shown) {
  for (auto start = shown.find("${{"); start != std::string::npos; start = shown.find("${{", start)) {
    const auto end = shown.find("}}", start);
    if (end == std::string::npos) return;
    std::fill(shown.begin() + static_cast<std::ptrdiff_t>(start), shown.begin() + static_cast<std::ptrdiff_t>(end) + 2, '_');
  }
}

Node scalar_in(Node value) {
  while (value.is("flow_node") || value.is("block_node")) {
    Node inner;
    for (const Node& child : value.children())
      if (!child.is("tag") && !child.is("anchor") && !child.is("comment")) inner = child;
    value = inner;
  }
  return value;
}

bool is_scalar(Node node) { return node.is("plain_scalar") || node.is("single_quote_scalar") || node.is("double_quote_scalar") || node.is("block_scalar"); }

// The bytes of the scalar's own words, without quotes or header; nothing where escapes make them differ from the text.
std::optional<ByteRange> inner_range(Node scalar) {
  const std::string_view text = scalar.text();
  if (scalar.is("plain_scalar")) return ByteRange{scalar.from(), scalar.to()};
  if (scalar.is("block_scalar")) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    return ByteRange{scalar.from() + end + 1, scalar.to()};
  }
  if (text.size() < 2 || text.find('\\') != std::string_view::npos || (scalar.is("single_quote_scalar") && text.find("''") != std::string_view::npos)) return std::nullopt;
  return ByteRange{scalar.from() + 1, scalar.to() - 1};
}

void read_shell_scalar(ShellText& into, Node scalar, std::string_view text, Node owner) {
  const auto range = inner_range(scalar);
  if (!range) return;
  std::string shown = blank_copy(text);
  std::copy(text.begin() + static_cast<std::ptrdiff_t>(range->from), text.begin() + static_cast<std::ptrdiff_t>(range->to), shown.begin() + static_cast<std::ptrdiff_t>(range->from));
  // Only after `|` does a line end stay one.
  if (!scalar.text().starts_with("|"))
    std::replace(shown.begin() + static_cast<std::ptrdiff_t>(range->from), shown.begin() + static_cast<std::ptrdiff_t>(range->to), '\n', ' ');
  hide_templates(shown);
  read_part(into, shown, text, {}, owner, scalar.is("double_quote_scalar"));
}

std::vector<Node> items_of(Node list) {
  std::vector<Node> items;
  for (const Node& child : list.children())
    if (const Node item = scalar_in(child.is("block_sequence_item") ? child.child(0) : child)) items.push_back(item);
  return items;
}

void read_word_list(ShellText& into, Node list, std::string_view text, Node owner) {
  const auto items = items_of(list);
  if (items.empty() || !std::all_of(items.begin(), items.end(), is_scalar)) return;
  // [bash, -c, "python train.py"]: the last word is a script.
  if (items.size() >= 3 && (items[1].text().find("-c") != std::string_view::npos || items[1].text().find("-lc") != std::string_view::npos)) {
    read_shell_scalar(into, items.back(), text, owner);
    return;
  }
  CommandLineInText line;
  line.style = list.is("flow_sequence") ? WordStyle::yaml_flow_list : WordStyle::yaml_block_list;
  line.from = list.from();
  line.to = list.to();
  line.owner = owner;
  line.folder = "";
  for (const Node& item : items) {
    const auto range = inner_range(item);
    Value value;
    if (range && item.text().find('$') == std::string_view::npos) value = std::string(text.substr(range->from, range->to - range->from));
    line.words.push_back({item.from(), item.to(), std::string(item.text()), std::move(value)});
  }
  into.commands.push_back(std::move(line));
}

}  // namespace

std::vector<Edit> CommandLineInText::replace(std::string_view text, std::size_t first, std::size_t last, const std::vector<std::string>& fresh) const {
  std::string written;
  if (style == WordStyle::shell) {
    written = join(fresh, " ");
    return {{words[first].from, words[last - 1].to, std::move(written)}};
  }
  // In the quotes of the word they take the place of.
  const char quote = words[first].raw.front();
  const auto quoted = [&](const std::string& word) { return quote == '"' || quote == '\'' ? quote + word + quote : word; };
  const std::size_t start = line_start(text, words[first].from);
  const std::string between = style == WordStyle::yaml_flow_list
                                  ? ", "
                                  : std::string(line_ending_of(text)) + std::string(text.substr(start, words[first].from - start));
  for (const std::string& word : fresh) written += (written.empty() ? "" : between) + quoted(word);
  return {{words[first].from, words[last - 1].to, std::move(written)}};
}

ShellText read_shell(const SyntaxTree& tree) {
  ShellText shell;
  shell.commands = ShellReader({}).read(tree);
  return shell;
}

ShellText read_makefile(std::string_view text) {
  std::string shown = blank_copy(text);
  std::map<std::string, Value> known;
  bool continued = false;  // the line before ended in a backslash
  bool in_recipe = false;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = line_end(text, start);
    const std::string_view line = text.substr(start, end - start);
    if (!continued) in_recipe = line.starts_with('\t');
    if (in_recipe) {
      std::size_t first = start;
      if (!continued)
        while (first < end && (text[first] == '\t' || text[first] == '@' || text[first] == '-' || text[first] == '+')) ++first;
      std::copy(text.begin() + static_cast<std::ptrdiff_t>(first), text.begin() + static_cast<std::ptrdiff_t>(end), shown.begin() + static_cast<std::ptrdiff_t>(first));
    } else if (const auto equals = line.find('='); equals != std::string_view::npos && !line.starts_with("#")) {
      std::string_view name = trim(line.substr(0, equals));
      while (!name.empty() && (name.back() == ':' || name.back() == '?')) name.remove_suffix(1);
      const std::string_view value = trim(line.substr(equals + 1));
      if (value.find('$') == std::string_view::npos) known[std::string(trim(name))] = std::string(value);
    }
    continued = trim(line).ends_with("\\");
    start = end;
  }
  to_shell_variables(shown);
  ShellText shell;
  read_part(shell, shown, text, known, {}, false);
  return shell;
}

ShellText read_yaml_commands(std::string_view text, const SyntaxTree& tree) {
  constexpr std::array<std::string_view, 6> kKeys = {"command", "cmd", "run", "args", "script", "entrypoint"};
  constexpr std::size_t kMostCommands = 100;  // each is parsed on its own, in a copy of the file's length
  ShellText shell;
  for (std::uint32_t index = 0; index < tree.size() && shell.commands.size() < kMostCommands; ++index) {
    const Node pair = tree.at(index);
    if (!pair.is("block_mapping_pair") && !pair.is("flow_pair")) continue;
    if (std::find(kKeys.begin(), kKeys.end(), pair.field("key").text()) == kKeys.end()) continue;
    const Node value = scalar_in(pair.field("value"));
    if (is_scalar(value)) {
      read_shell_scalar(shell, value, text, pair.parent());
    } else if (value.is("flow_sequence") || value.is("block_sequence")) {
      // GitLab's script: is a list of whole commands.
      if (pair.field("key").text() == "script" || pair.field("key").text() == "run")
        for (const Node& item : items_of(value)) read_shell_scalar(shell, item, text, pair.parent());
      else read_word_list(shell, value, text, pair.parent());
    }
  }
  return shell;
}

std::optional<std::string> sbatch_value(std::string_view text, std::initializer_list<std::string_view> names) {
  std::optional<std::string> found;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("#SBATCH")) continue;
    std::string_view rest = trim(line.substr(7));
    if (const auto comment = rest.find(" #"); comment != std::string_view::npos) rest = trim(rest.substr(0, comment));
    const auto end = rest.find_first_of("= \t");
    if (end == std::string_view::npos) continue;
    for (const std::string_view name : names)
      if (rest.substr(0, end) == name) found = std::string(trim(rest.substr(end + 1)));
  }
  return found;
}

}  // namespace lockstep
