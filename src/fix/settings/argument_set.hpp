// Named values wherever they are written: arguments of a Python call, keys of a YAML mapping or a
// JSON object, options of a command.
//
// Rules about arguments are written once, against this; how a value is set, added or taken away
// without touching anything else is known here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fix/edit.hpp"
#include "fix/python/python_module.hpp"
#include "fix/shell/launch_lines.hpp"
#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

enum class Carrier : std::uint8_t { python, yaml, json, command };

// A stretch of a file's text. An absent one is false.
class TextSpan {
 public:
  TextSpan() = default;
  // A node is one.
  TextSpan(Node node) : from_(node.from()), text_(node.text()), is_there_(node) {}
  TextSpan(std::size_t from, std::string_view text) : from_(from), text_(text), is_there_(true) {}

  explicit operator bool() const { return is_there_; }
  std::size_t from() const { return from_; }
  std::size_t to() const { return from_ + text_.size(); }
  std::string_view text() const { return text_; }

 private:
  std::size_t from_ = 0;
  std::string_view text_;
  bool is_there_ = false;
};

struct Setting {
  std::string name;
  TextSpan key;  // where the name stands
  TextSpan value;
  TextSpan whole;  // name and value; of a command's option the name alone
  std::optional<bool> truth;
  std::optional<double> number;
  std::optional<std::string> word;
};

class ArgumentSet {
 public:
  static ArgumentSet of_call(const PythonCall& call);
  static ArgumentSet of_yaml(Node block_mapping);
  static ArgumentSet of_json(Node object);
  // The options from one word on: --name value, --name=value, --flag.
  static ArgumentSet of_command(const CommandLineInText& line, std::size_t first_word);

  Carrier carrier() const { return carrier_; }
  const std::vector<Setting>& settings() const { return settings_; }
  const Setting* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // More may be given than can be seen: **kwargs.
  bool is_open() const { return open_; }
  Node node() const { return node_; }      // none of a command
  TextSpan span() const { return span_; }  // where it begins, where nothing is set yet

  // The value of a name as a number or a truth, else nothing.
  std::optional<double> number(std::string_view name) const;
  std::optional<bool> truth(std::string_view name) const;
  std::optional<std::string> word(std::string_view name) const;

  // Values are given as Python writes them: True, 4, "x". No edits: it cannot be done here.
  bool says(std::string_view name, std::string_view value) const;
  std::vector<Edit> set(std::string_view text, std::string_view name, std::string_view value) const;
  std::vector<Edit> remove(std::string_view text, const Setting& setting) const;
  std::vector<Edit> rename(const Setting& setting, std::string_view name) const;
  // Whether new names can be added here.
  bool can_grow() const;

 private:
  std::vector<Edit> add(std::string_view text, std::string_view name, std::string_view value) const;
  std::string written(std::string_view python_value) const;

  Carrier carrier_ = Carrier::python;
  Node node_;
  TextSpan span_;
  std::vector<Setting> settings_;
  bool open_ = false;
};

// Takes items of a bracketed list away, with their commas, and with their lines where they stand
// alone on them.
std::vector<Edit> without_items(std::string_view text, std::vector<TextSpan> items);

}  // namespace lockstep
