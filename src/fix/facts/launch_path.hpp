// What a script's expressions are when it is started in a certain way: the branches that it takes
// where WORLD_SIZE is set, and those where it is not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fix/python/python_module.hpp"

namespace lockstep {

struct LaunchPath {
  std::optional<int> ranks;  // none: plain python, WORLD_SIZE is not set
  std::optional<int> gpus;   // that a process sees
  std::vector<std::string> arguments;
};

struct PythonNone {
  bool operator==(const PythonNone&) const = default;
};
using PathScalar = std::variant<PythonNone, bool, double, std::string>;
using PathValue = std::optional<PathScalar>;  // nothing: it is not known

std::optional<double> number_of(const PathValue& value);
std::optional<std::string> word_of(const PathValue& value);

// Runs the assignments and conditions that lead to an expression, as far as numbers, words and the
// launcher's variables decide them. Loops, calls and what they change are not known.
class PathEvaluation {
 public:
  PathEvaluation(const PythonModule& module, LaunchPath path);

  PathValue value(Node expression) const;

 private:
  using Names = std::map<std::string, PathValue, std::less<>>;

  PathValue evaluate(Node expression, const Names& names, int depth) const;
  PathValue call(Node node, const Names& names, int depth) const;
  PathValue comparison(Node node, const Names& names, int depth) const;
  PathValue environment(std::string_view name) const;
  bool run(Node block, Node goal, Names& names, int depth) const;
  bool run_if(Node statement, Node goal, Names& names, int depth) const;
  void assign(Node statement, Names& names) const;
  void bind_parameters(Node function, Names& names) const;

  const PythonModule& module_;
  LaunchPath path_;
};

}  // namespace lockstep
