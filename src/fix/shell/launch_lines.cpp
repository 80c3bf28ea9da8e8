#include "fix/shell/launch_lines.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.hpp"
#include "fix/syntax/yaml_value.hpp"

namespace lockstep {
namespace {

using Value = std::optional<std::string>;

constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES";

// What a shell knows at a point of its script.
struct ShellState {
  std::map<std::string, Value> variables;
  std::set<std::string> exported;
  Value folder = "";
};

// Reads the commands of one Bash tree from top to bottom and keeps what is known on the way. What
// depends on a condition, a loop, a function or the outside is not known afterwards; a subshell's
// changes end with it.
class ShellReader {
 public:
  // `fresh_at`: where a new shell starts, as each line of a Makefile's recipe does.
  ShellReader(ShellState start, std::vector<std::size_t> fresh_at)
      : start_(std::move(start)), state_(start_), fresh_at_(std::move(fresh_at)) {}

  std::vector<CommandLineInText> read(const SyntaxTree& tree) {
    std::vector<CommandLineInText> commands;
    std::vector<std::pair<std::uint32_t, ShellState>> outer;  // of the subshells that are open
    for (std::uint32_t index = 0; index < tree.size(); ++index) {
      const Node node = tree.at(index);
      for (; !outer.empty() && outer.back().first <= index; outer.pop_back())
        state_ = std::move(outer.back().second);
      for (; next_fresh_ < fresh_at_.size() && node.from() >= fresh_at_[next_fresh_] && index > 0;
           ++next_fresh_)
        state_ = start_;
      if (!node.is_named()) continue;
      const std::string_view kind = node.kind();
      if (kind == "subshell" || kind == "command_substitution" || kind == "process_substitution")
        outer.emplace_back(node.end_index(), state_);
      else if (kind == "variable_assignment")
        assign(node);
      else if (kind == "declaration_command")
        declare(node);
      else if (kind == "for_statement")
        state_.variables[std::string(node.field("variable").text())] = std::nullopt;
      else if (kind == "unset_command")
        forget(node);
      else if (kind == "command" && !node.enclosing("command_substitution"))
        commands.push_back(command(tree, node));
    }
    return commands;
  }

 private:
  void assign(Node node) {
    // X=1 cmd is the command's own
    if (node.parent().is("command") || node.parent().is("declaration_command")) return;
    set(node, node);
  }

  void set(Node assignment, Node statement) {
    const std::string name(assignment.field("name").text());
    Value value =
        assignment.text().substr(std::min(name.size(), assignment.text().size())).starts_with("+=")
            ? std::nullopt
            : evaluated(assignment.field("value"));
    const auto before = state_.variables.find(name);
    if (is_conditional(statement) && (before == state_.variables.end() || before->second != value))
      value = std::nullopt;
    state_.variables[name] = std::move(value);
  }

  static bool is_conditional(Node node) {
    if (is_after_a_test(node)) return true;
    return node.parent().is("pipeline") || node.enclosing("if_statement") ||
           node.enclosing("case_statement") || is_in_loop(node) ||
           node.enclosing("function_definition");
  }

  // `[ -z "$X" ] && X=1` and `cmd || X=1` may or may not be; `export A=1 && export B=2 && cmd` is.
  static bool is_after_a_test(Node node) {
    Node list;
    for (Node around = node.parent(); around.is("list"); around = around.parent()) list = around;
    if (!list) return false;
    return list.text().find("||") != std::string_view::npos ||
           !list.descendants("test_command").empty() ||
           !list.descendants("negated_command").empty() || list.text().starts_with("test ") ||
           list.text().starts_with("grep ");
  }

  void declare(Node node) {
    const bool exports = node.text().starts_with("export") || node.text().starts_with("declare -x");
    for (const Node& item : node.children()) {
      if (item.is("variable_assignment")) set(item, node);
      if (exports && item.is("variable_assignment"))
        state_.exported.insert(std::string(item.field("name").text()));
      if (exports && item.is("variable_name")) state_.exported.insert(std::string(item.text()));
    }
  }

  void forget(Node node) {
    for (const Node& name : node.descendants("variable_name")) {
      state_.variables[std::string(name.text())] = std::nullopt;
      state_.exported.erase(std::string(name.text()));
    }
  }

  static bool is_in_loop(Node node) {
    return node.enclosing("for_statement") || node.enclosing("while_statement") ||
           node.enclosing("c_style_for_statement");
  }

  static bool is_in_background(const SyntaxTree& tree, Node node) {
    while (node.parent().is("redirected_statement") || node.parent().is("pipeline") ||
           node.parent().is("list"))
      node = node.parent();
    return node.end_index() < tree.size() && tree.at(node.end_index()).parent() == node.parent() &&
           tree.at(node.end_index()).text() == "&";
  }

  CommandLineInText command(const SyntaxTree& tree, Node node) {
    CommandLineInText line;
    line.from = node.from();
    line.to = node.to();
    if (const auto found = state_.variables.find(std::string(kVisible));
        found != state_.variables.end() && state_.exported.contains(found->first))
      line.visible_devices = found->second;
    line.environment.insert(state_.exported.begin(), state_.exported.end());
    for (const Node& item : node.children()) {
      if (item.is("variable_assignment")) {
        line.environment.emplace(item.field("name").text());
        if (item.field("name").text() == kVisible)
          line.visible_devices = evaluated(item.field("value"));
      } else if (item.is("command_name")) {
        line.words.push_back(word(item.child(0) ? item.child(0) : item));
      } else if (!item.is("file_redirect") && !item.is("herestring_redirect") &&
                 !item.is("heredoc_redirect") && !item.is("comment")) {
        line.words.push_back(word(item));
      }
    }
    line.folder = state_.folder;
    line.in_loop = is_in_loop(node);
    line.in_function = static_cast<bool>(node.enclosing("function_definition"));
    line.in_background = is_in_background(tree, node);
    note_effects(line);
    return line;
  }

  void note_effects(const CommandLineInText& line) {
    if (line.words.size() < 2) return;
    const Value& name = line.words[0].value;
    if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts") {
      for (const CommandWord& word : line.words) state_.variables[word.raw] = std::nullopt;
    } else if (name == "cd" || name == "pushd") {
      const Value& target = line.words[1].value;
      if (!target || !state_.folder)
        state_.folder = std::nullopt;
      else if (target->starts_with("/"))
        state_.folder = *target;
      else
        state_.folder = state_.folder->empty() ? *target : *state_.folder + "/" + *target;
    }
  }

  CommandWord word(Node node) const {
    return {node.from(), node.to(), std::string(node.text()), evaluated(node)};
  }

  Value variable(std::string_view name) const {
    const auto found = state_.variables.find(std::string(name));
    return found == state_.variables.end() ? std::nullopt : found->second;
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
    if (kind == "raw_string")
      return node.text().size() >= 2
                 ? Value(std::string(node.text().substr(1, node.text().size() - 2)))
                 : std::nullopt;
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

  // ${NAME}, and ${NAME:-default} where the name is set
  Value expansion(Node node) const {
    std::string_view inner = node.text();
    if (!inner.starts_with("${") || !inner.ends_with("}")) return std::nullopt;
    inner = inner.substr(2, inner.size() - 3);
    const auto end =
        inner.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    const Value known = variable(inner.substr(0, end));
    if (end == std::string_view::npos) return known;
    const std::string_view rest = inner.substr(end);
    // What is not set here may come from outside: the default is then only a guess.
    return rest.starts_with(":-") && known && !known->empty() ? known : std::nullopt;
  }

  // $(dirname "$0") in all its spellings
  static bool is_own_folder(Node node) {
    const std::string_view text = node.text();
    return text.find("dirname") != std::string_view::npos &&
           (text.find("$0") != std::string_view::npos ||
            text.find("BASH_SOURCE") != std::string_view::npos);
  }

  const ShellState start_;
  ShellState state_;
  std::vector<std::size_t> fresh_at_;
  std::size_t next_fresh_ = 0;
};

// `shown` is what a shell would see, as long as the text itself.
void read_part(ShellText& into, const std::string& shown, std::string_view text, ShellState start,
               std::vector<std::size_t> fresh_at, Node owner) {
  const auto tree = SyntaxTree::parse(Language::bash, shown);
  if (!tree) return;
  for (CommandLineInText& line : ShellReader(std::move(start), std::move(fresh_at)).read(*tree)) {
    for (CommandWord& word : line.words) word.raw = text.substr(word.from, word.to - word.from);
    line.owner = owner;
    into.commands.push_back(std::move(line));
  }
}

// Make's own variables and its doubled dollars, as a shell would have them and as long as they
// were.
void to_shell_variables(std::string& shown) {
  for (std::size_t i = 0; i + 1 < shown.size(); ++i) {
    if (shown[i] != '$') continue;
    if (shown[i + 1] == '$') {
      shown[i++] = ' ';
    } else if (shown[i + 1] == '(') {
      const auto end = shown.find(')', i);
      const bool plain =
          end != std::string::npos &&
          std::all_of(shown.begin() + static_cast<std::ptrdiff_t>(i) + 2,
                      shown.begin() + static_cast<std::ptrdiff_t>(end),
                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
      if (!plain) continue;
      shown[i + 1] = '{';
      shown[end] = '}';
    }
  }
}

// ${{ inputs.x }} of Azure ML and GitHub is known to the platform alone.
void hide_templates(std::string& shown) {
  for (auto start = shown.find("${{"); start != std::string::npos;
       start = shown.find("${{", start)) {
    const auto end = shown.find("}}", start);
    if (end == std::string::npos) return;
    std::fill(shown.begin() + static_cast<std::ptrdiff_t>(start),
              shown.begin() + static_cast<std::ptrdiff_t>(end) + 2, '_');
  }
}

bool is_scalar(Node node) {
  return node.is("plain_scalar") || node.is("single_quote_scalar") ||
         node.is("double_quote_scalar") || node.is("block_scalar");
}

// The bytes of the scalar's own words, without quotes or header; nothing where escapes make them
// differ from the text.
std::optional<ByteRange> inner_range(Node scalar) {
  const std::string_view text = scalar.text();
  if (scalar.is("plain_scalar")) return ByteRange{scalar.from(), scalar.to()};
  if (scalar.is("block_scalar")) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    return ByteRange{scalar.from() + end + 1, scalar.to()};
  }
  if (text.size() < 2 || text.find('\\') != std::string_view::npos ||
      (scalar.is("single_quote_scalar") && text.find("''") != std::string_view::npos))
    return std::nullopt;
  return ByteRange{scalar.from() + 1, scalar.to() - 1};
}

// Where a job's command runs: Azure ML's `code: src`, SkyPilot's `workdir: .`.
std::string folder_of(Node owner) {
  for (const Node& pair : owner.children()) {
    const std::string_view key = pair.field("key").text();
    if (key != "code" && key != "workdir" && key != "working-directory") continue;
    const auto range = inner_range(yaml_value(pair.field("value")));
    const std::string_view folder =
        range ? owner.text().substr(range->from - owner.from(), range->to - range->from)
              : std::string_view();
    if (!folder.empty() && folder.find_first_of(":${") == std::string_view::npos &&
        !folder.starts_with('/'))
      return std::string(folder.starts_with("./") ? folder.substr(2) : folder);
  }
  return "";
}

void read_shell_scalar(ShellText& into, Node scalar, std::string_view text, Node owner) {
  const auto range = inner_range(scalar);
  if (!range) return;
  std::string shown = blank_copy(text);
  std::copy(text.begin() + static_cast<std::ptrdiff_t>(range->from),
            text.begin() + static_cast<std::ptrdiff_t>(range->to),
            shown.begin() + static_cast<std::ptrdiff_t>(range->from));
  // Only after `|` does a line end stay one.
  if (!scalar.text().starts_with("|"))
    std::replace(shown.begin() + static_cast<std::ptrdiff_t>(range->from),
                 shown.begin() + static_cast<std::ptrdiff_t>(range->to), '\n', ' ');
  hide_templates(shown);
  ShellState start;
  start.folder = folder_of(owner);
  read_part(into, shown, text, std::move(start), {}, owner);
}

std::vector<Node> items_of(Node list) {
  std::vector<Node> items;
  for (const Node& child : list.children())
    if (const Node item =
            child.is("comment")
                ? Node()
                : yaml_value(child.is("block_sequence_item") ? child.child(0) : child))
      items.push_back(item);
  return items;
}

// The list under another key of the same mapping.
Node sibling(Node pair, std::string_view key) {
  for (const Node& other : pair.parent().children())
    if (other != pair && other.field("key").text() == key)
      if (const Node value = yaml_value(other.field("value"));
          value.is("flow_sequence") || value.is("block_sequence"))
        return value;
  return {};
}

bool is_word(Node item, std::string_view word) {
  const std::string_view text = item.text();
  return text == word ||
         (text.size() == word.size() + 2 && (text.front() == '"' || text.front() == '\'') &&
          text.substr(1, word.size()) == word);
}

// `command: [...]`, with the `args: [...]` beside it that Kubernetes puts behind.
void read_word_list(ShellText& into, Node list, Node arguments, std::string_view text, Node owner) {
  const auto items = items_of(list);
  const auto more = items_of(arguments);
  if (items.empty() || !std::ranges::all_of(items, is_scalar) ||
      !std::ranges::all_of(more, is_scalar))
    return;
  // [bash, -c, "python train.py"]: the word after -c is a script.
  const auto runs_script = std::ranges::find_if(
      items, [](Node item) { return is_word(item, "-c") || is_word(item, "-lc"); });
  if (runs_script != items.end()) {
    if (runs_script + 1 != items.end())
      read_shell_scalar(into, *(runs_script + 1), text, owner);
    else if (!more.empty())
      read_shell_scalar(into, more.front(), text, owner);
    return;
  }
  CommandLineInText line;
  line.style = list.is("flow_sequence") ? WordStyle::yaml_flow_list : WordStyle::yaml_block_list;
  line.from = list.from();
  line.to = list.to();
  line.owner = owner;
  line.folder = folder_of(owner);
  for (const auto* const part : {&items, &more})
    for (const Node& item : *part) {
      const auto range = inner_range(item);
      Value value;
      if (range && item.text().find('$') == std::string_view::npos)
        value = std::string(text.substr(range->from, range->to - range->from));
      line.words.push_back({item.from(), item.to(), std::string(item.text()), std::move(value)});
    }
  into.commands.push_back(std::move(line));
}

}  // namespace

std::vector<Edit> CommandLineInText::replace(std::string_view text, std::size_t first,
                                             std::size_t last,
                                             const std::vector<std::string>& fresh) const {
  std::string written;
  if (style == WordStyle::shell) {
    written = join(fresh, " ");
    return {{words[first].from, words[last - 1].to, std::move(written)}};
  }
  // In the quotes of the word they take the place of.
  const char quote = words[first].raw.front();
  const auto quoted = [&](const std::string& word) {
    return quote == '"' || quote == '\'' ? quote + word + quote : word;
  };
  const std::size_t start = line_start(text, words[first].from);
  const std::string between = style == WordStyle::yaml_flow_list
                                  ? ", "
                                  : std::string(line_ending_of(text)) +
                                        std::string(text.substr(start, words[first].from - start));
  for (const std::string& word : fresh) written += (written.empty() ? "" : between) + quoted(word);
  return {{words[first].from, words[last - 1].to, std::move(written)}};
}

// A copy of the text's length with nothing in it but line ends.
std::string blank_copy(std::string_view text) {
  std::string shown(text);
  for (char& c : shown)
    if (c != '\n') c = ' ';
  return shown;
}

void read_shell_within(ShellText& into, ShellWithin within, std::string_view text) {
  read_part(into, within.shown, text, {std::move(within.variables), std::move(within.exported), ""},
            std::move(within.fresh_at), {});
}

ShellText read_shell(const SyntaxTree& tree) {
  ShellText shell;
  shell.commands = ShellReader({}, {}).read(tree);
  return shell;
}

ShellText read_makefile(std::string_view text) {
  std::string shown = blank_copy(text);
  std::map<std::string, Value> known;
  std::set<std::string> exported;
  std::vector<std::size_t> recipes;
  bool continued = false;  // the line before ended in a backslash
  bool in_recipe = false;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = line_end(text, start);
    const std::string_view line = text.substr(start, end - start);
    if (!continued) in_recipe = line.starts_with('\t');
    if (!continued && in_recipe) recipes.push_back(start);
    if (in_recipe) {
      std::size_t first = start;
      if (!continued)
        while (first < end && (text[first] == '\t' || text[first] == '@' || text[first] == '-' ||
                               text[first] == '+'))
          ++first;
      std::copy(text.begin() + static_cast<std::ptrdiff_t>(first),
                text.begin() + static_cast<std::ptrdiff_t>(end),
                shown.begin() + static_cast<std::ptrdiff_t>(first));
    } else if (const auto equals = line.find('=');
               equals != std::string_view::npos && !line.starts_with("#")) {
      std::string_view name = trim(line.substr(0, equals));
      while (!name.empty() && (name.back() == ':' || name.back() == '?' || name.back() == '+'))
        name.remove_suffix(1);
      name = trim(name);
      // `export X := 1`, and a target's own `train: export X=1`, taken for all: fewer GPUs are the
      // safer guess.
      const auto word = name.find_last_of(" \t:");
      const bool exports = name.find("export") != std::string_view::npos;
      if (word != std::string_view::npos) name = trim(name.substr(word + 1));
      const std::string_view value = trim(line.substr(equals + 1));
      known[std::string(name)] =
          value.find('$') == std::string_view::npos && line[equals == 0 ? 0 : equals - 1] != '+'
              ? Value(std::string(value))
              : std::nullopt;
      if (exports) exported.insert(std::string(name));
    }
    continued = trim(line).ends_with("\\");
    start = end;
  }
  to_shell_variables(shown);
  ShellText shell;
  read_shell_within(shell, {std::move(shown), std::move(known), std::move(exported), recipes},
                    text);
  return shell;
}

ShellText read_yaml_commands(std::string_view text, const SyntaxTree& tree) {
  constexpr std::array<std::string_view, 6> kKeys = {"command", "cmd",    "run",
                                                     "args",    "script", "entrypoint"};
  // each is parsed on its own, in a copy of the file's length
  constexpr std::size_t kMostKeys = 100;
  ShellText shell;
  std::size_t keys = 0;
  for (std::uint32_t index = 0; index < tree.size() && keys < kMostKeys; ++index) {
    const Node pair = tree.at(index);
    if (!pair.is("block_mapping_pair") && !pair.is("flow_pair")) continue;
    if (std::ranges::find(kKeys, pair.field("key").text()) == kKeys.end()) continue;
    ++keys;
    const Node value = yaml_value(pair.field("value"));
    if (is_scalar(value)) {
      read_shell_scalar(shell, value, text, pair.parent());
    } else if (value.is("flow_sequence") || value.is("block_sequence")) {
      // GitLab's script: is a list of whole commands.
      if (pair.field("key").text() == "script" || pair.field("key").text() == "run")
        for (const Node& item : items_of(value))
          read_shell_scalar(shell, item, text, pair.parent());
      else if (pair.field("key").text() != "args" || !sibling(pair, "command"))
        read_word_list(shell, value, sibling(pair, "args"), text, pair.parent());
    }
  }
  return shell;
}

std::optional<std::string> option_among(const std::vector<std::string>& words,
                                        std::initializer_list<std::string_view> names) {
  std::optional<std::string> found;
  for (std::size_t i = 0; i < words.size(); ++i)
    for (const std::string_view name : names) {
      const std::string& word = words[i];
      const bool is_long = name.starts_with("--");
      if (word == name)
        found = i + 1 < words.size() ? words[i + 1] : "";
      else if (word.starts_with(name) && is_long && word[name.size()] == '=')
        found = word.substr(name.size() + 1);
      else if (word.starts_with(name) && !is_long)
        found = word.substr(name.size() + (word[name.size()] == '=' ? 1 : 0));
    }
  return found;
}

std::optional<std::string> sbatch_value(std::string_view text,
                                        std::initializer_list<std::string_view> names) {
  std::vector<std::string> words;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("#SBATCH")) continue;
    for (const std::string_view word : split(trim(line.substr(7)), ' ')) {
      if (word.starts_with("#")) break;
      if (!trim(word).empty()) words.emplace_back(trim(word));
    }
  }
  return option_among(words, names);
}

}  // namespace lockstep
