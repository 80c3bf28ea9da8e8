// Named values wherever they are written: arguments of a Python call, keys of a YAML mapping or a
// JSON object.
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
#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

enum class Carrier : std::uint8_t { python, yaml, json };

struct Setting {
  std::string name;
  Node key;  // where the name stands
  Node value;
  Node whole;  // name and value
  std::optional<bool> truth;
  std::optional<double> number;
  std::optional<std::string> word;
};

class ArgumentSet {
 public:
  static ArgumentSet of_call(const PythonCall& call);
  static ArgumentSet of_yaml(Node block_mapping);
  static ArgumentSet of_json(Node object);

  Carrier carrier() const { return carrier_; }
  const std::vector<Setting>& settings() const { return settings_; }
  const Setting* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // More may be given than can be seen: **kwargs.
  bool is_open() const { return open_; }
  Node node() const { return node_; }

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
  std::vector<Setting> settings_;
  bool open_ = false;
};

// Takes items of a bracketed list away, with their commas, and with their lines where they stand
// alone on them.
std::vector<Edit> without_items(std::string_view text, std::vector<Node> items);

}  // namespace lockstep
