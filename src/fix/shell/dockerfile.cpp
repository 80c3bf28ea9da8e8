// Dockerfiles: the command that a container runs.
//
// CMD and ENTRYPOINT come as a line of shell or as a JSON list of words. A list after ENTRYPOINT
// takes the one after CMD for its arguments; a script that stands there usually runs what CMD says.
// RUN is left out: it builds the image.
#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "fix/edit.hpp"
#include "fix/shell/launch_lines.hpp"

namespace lockstep {
namespace {

struct Instruction {
  std::string name;      // in capitals
  std::size_t from = 0;  // of what stands behind it
  std::size_t to = 0;    // with the lines that go on
};

// "# syntax=..." and remarks between continued lines are none.
std::vector<Instruction> instructions_of(std::string_view text) {
  std::vector<Instruction> found;
  bool goes_on = false;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = line_end(text, start);
    const std::string_view line = text.substr(start, end - start);
    const std::string_view words = trim(line);
    if (goes_on && !found.empty()) {
      found.back().to = end;
      if (!words.starts_with('#') && !words.empty()) goes_on = words.ends_with('\\');
    } else if (!words.empty() && !words.starts_with('#')) {
      const auto space = std::min(words.find_first_of(" \t"), words.size());
      std::string name(words.substr(0, space));
      std::ranges::transform(name, name.begin(), [](char letter) {
        return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
      });
      const auto at = static_cast<std::size_t>(words.data() - text.data()) + space;
      found.push_back({std::move(name), at, end});
      goes_on = words.ends_with('\\');
    }
    start = end;
  }
  return found;
}

// ["python", "train.py"]; empty: no such list, or one with escapes in it.
std::vector<CommandWord> words_of_list(std::string_view text, const Instruction& instruction) {
  std::vector<CommandWord> words;
  const std::size_t open = text.find_first_not_of(" \t\\\r\n", instruction.from);
  if (open >= instruction.to || text[open] != '[') return {};
  const std::size_t close = text.rfind(']', instruction.to - 1);
  if (close == std::string_view::npos || close < open) return {};
  for (std::size_t at = text.find('"', open); at < close; at = text.find('"', at)) {
    const std::size_t end = text.find('"', at + 1);
    if (end == std::string_view::npos || end > close) return {};
    const std::string_view inner = text.substr(at + 1, end - at - 1);
    if (inner.find('\\') != std::string_view::npos) return {};
    CommandWord word{at, end + 1, std::string(text.substr(at, end + 1 - at)), std::nullopt};
    if (inner.find('$') == std::string_view::npos) word.value = std::string(inner);
    words.push_back(std::move(word));
    at = end + 1;
  }
  return words;
}

bool starts_programs(const CommandWord& word) {
  const std::string name = std::filesystem::path(word.value.value_or("")).filename().string();
  return name.starts_with("python") || name == "torchrun" || name == "accelerate" ||
         name == "deepspeed";
}

class Container {
 public:
  explicit Container(std::string_view text) : text_(text) { within_.shown = blank_copy(text); }

  ShellText read() {
    for (const Instruction& instruction : instructions_of(text_)) {
      if (instruction.name == "FROM") finish_stage();
      if (instruction.name == "ENV" || instruction.name == "ARG") remember(instruction);
      if (instruction.name == "CMD") take(instruction, command_);
      if (instruction.name == "ENTRYPOINT") take(instruction, entrypoint_);
    }
    finish_stage();
    std::ranges::sort(within_.fresh_at);
    ShellText shell;
    read_shell_within(shell, std::move(within_), text_);
    for (CommandLineInText& list : lists_) {
      list.environment.insert(environment_.begin(), environment_.end());
      shell.commands.push_back(std::move(list));
    }
    return shell;
  }

 private:
  // ENV NAME=value OTHER=value, ENV NAME value
  void remember(const Instruction& instruction) {
    const std::string_view words =
        trim(text_.substr(instruction.from, instruction.to - instruction.from));
    const bool has_equals = words.find('=') < words.find_first_of(" \t");
    const auto set = [&](std::string_view name, std::string_view value) {
      if (value.size() > 1 && value.front() == '"' && value.back() == '"')
        value = value.substr(1, value.size() - 2);
      const bool is_known = value.find_first_of("$\\") == std::string_view::npos;
      within_.variables[std::string(name)] =
          is_known ? std::optional(std::string(value)) : std::nullopt;
      if (instruction.name != "ENV") return;
      within_.exported.emplace(name);
      environment_.emplace(name);
      if (name == "CUDA_VISIBLE_DEVICES")
        visible_devices_ = is_known ? std::optional(std::string(value)) : std::nullopt;
    };
    if (!has_equals) {
      const auto space = words.find_first_of(" \t");
      if (space != std::string_view::npos) set(words.substr(0, space), trim(words.substr(space)));
      return;
    }
    for (const std::string_view word : split(words, ' '))
      if (const auto equals = word.find('='); equals != std::string_view::npos)
        set(trim(word.substr(0, equals)), trim(word.substr(equals + 1)));
  }

  void take(const Instruction& instruction, std::vector<CommandWord>& list) {
    list = words_of_list(text_, instruction);
    if (!list.empty()) return;
    show(instruction.from, instruction.to);
  }

  void show(std::size_t from, std::size_t to) {
    within_.fresh_at.push_back(from);
    std::copy(text_.begin() + static_cast<std::ptrdiff_t>(from),
              text_.begin() + static_cast<std::ptrdiff_t>(to),
              within_.shown.begin() + static_cast<std::ptrdiff_t>(from));
  }

  void finish_stage() {
    if (!entrypoint_.empty() && starts_programs(entrypoint_.front()) && !command_.empty() &&
        !starts_programs(command_.front())) {
      std::vector<CommandWord> words = std::move(entrypoint_);
      words.insert(words.end(), command_.begin(), command_.end());
      add(std::move(words));
    } else {
      add(std::move(entrypoint_));
      add(std::move(command_));
    }
    entrypoint_.clear();
    command_.clear();
  }

  void add(std::vector<CommandWord> words) {
    if (words.empty()) return;
    // ["bash", "-c", "python train.py"]: the word after -c is a script
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      if (words[i].value == "-c" || words[i].value == "-lc")
        if (!starts_programs(words.front()))
          return show(words[i + 1].from + 1, words[i + 1].to - 1);
    CommandLineInText line;
    line.style = WordStyle::yaml_flow_list;
    line.from = words.front().from;
    line.to = words.back().to;
    line.folder = "";
    if (visible_devices_) line.visible_devices = *visible_devices_;
    line.words = std::move(words);
    lists_.push_back(std::move(line));
  }

  std::string_view text_;
  ShellWithin within_;
  std::set<std::string> environment_;
  std::optional<std::optional<std::string>> visible_devices_;
  std::vector<CommandWord> entrypoint_;
  std::vector<CommandWord> command_;
  std::vector<CommandLineInText> lists_;
};

}  // namespace

ShellText read_dockerfile(std::string_view text) { return Container(text).read(); }

}  // namespace lockstep
