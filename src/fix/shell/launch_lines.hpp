// The commands that a text runs, word by word, with what is known of their variables.
//
// Shell scripts, Makefile recipes and `command:` strings in YAML are all read as Bash, over a copy
// of the text in which everything else is blanked out: offsets stay those of the file, and one
// reader does for all. A `command: [python, train.py]` list is words as they stand.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fix/edit.hpp"
#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

struct CommandWord {
  std::size_t from = 0;
  std::size_t to = 0;
  std::string raw;  // as written
  // quotes removed and variables put in; nothing: not known before it runs
  std::optional<std::string> value;
};

// How a list of words is written, so that new ones can be written alike. A Dockerfile's
// ["python", "train.py"] is a flow list, too.
enum class WordStyle : std::uint8_t { shell, yaml_flow_list, yaml_block_list };

struct CommandLineInText {
  std::vector<CommandWord> words;
  // CUDA_VISIBLE_DEVICES as set before the command or exported on the way to it: nothing: not set;
  // an inner nothing: not known.
  std::optional<std::optional<std::string>> visible_devices;
  // Variables that are set before the command or exported on the way to it.
  std::set<std::string, std::less<>> environment;
  std::size_t from = 0;
  std::size_t to = 0;
  WordStyle style = WordStyle::shell;
  std::optional<std::string> folder;  // where a `cd` before it went, from the script's own folder
  bool in_background = false;
  bool in_loop = false;
  bool in_function = false;
  Node owner;  // in YAML: the mapping that the command stands in

  // The words from `first` up to `last` become these.
  std::vector<Edit> replace(std::string_view text, std::size_t first, std::size_t last,
                            const std::vector<std::string>& fresh) const;
};

struct ShellText {
  std::vector<CommandLineInText> commands;
};

// Bash at some places of a text of another kind.
struct ShellWithin {
  std::string shown;  // the text, with everything else blanked out
  std::map<std::string, std::optional<std::string>> variables;
  std::set<std::string> exported;
  std::vector<std::size_t> fresh_at;  // where a new shell starts
};
void read_shell_within(ShellText& into, ShellWithin within, std::string_view text);

// As long as the text: only its line ends are left.
std::string blank_copy(std::string_view text);

ShellText read_shell(const SyntaxTree& tree);
ShellText read_makefile(std::string_view text);
// What a container runs: CMD and ENTRYPOINT.
ShellText read_dockerfile(std::string_view text);
ShellText read_yaml_commands(std::string_view text, const SyntaxTree& tree);

// The value of an option among words, by any of its names: --nodes=2, --nodes 2, -N 2, -N2.
std::optional<std::string> option_among(const std::vector<std::string>& words,
                                        std::initializer_list<std::string_view> names);
// The same among the `#SBATCH` lines of a script: sbatch_value(text, {"--nodes", "-N"}). The last
// one counts, as for sbatch.
std::optional<std::string> sbatch_value(std::string_view text,
                                        std::initializer_list<std::string_view> names);

}  // namespace lockstep
