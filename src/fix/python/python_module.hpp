// What a Python file says, as far as `fix` needs it: imports, calls with their arguments,
// assignments, functions.
//
// Names are followed by their text alone, without regard to order: what is assigned twice has no
// known value. That is enough to say which model a Trainer gets, and where it is not the rules stay
// silent.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

struct PythonArgument {
  std::string name;  // empty: positional
  Node value;
  Node whole;  // name=value
};

struct PythonCall {
  Node node;
  Node list;              // the argument list with its brackets
  std::string callee;     // as written: "AutoModel.from_pretrained"
  std::string full_name;  // with imports followed: "transformers.AutoModel.from_pretrained"
  std::vector<PythonArgument> arguments;
  bool has_splat = false;  // *args or **kwargs: more than can be seen

  const PythonArgument* argument(std::string_view name) const;
  const PythonArgument* positional(std::size_t position) const;
  // by its name, else by its place
  const PythonArgument* given(std::string_view name, std::size_t position) const;
  std::string_view last_name() const;  // "from_pretrained"
};

struct PythonAssignment {
  std::string target;  // "model", "self.model", "os.environ["X"]"
  Node value;
  Node statement;
  Node function;  // the function it stands in; none: the module
  // of the value, where several names are given at once: a, b = f()
  std::optional<std::size_t> element;
};

struct PythonImport {
  std::string module;  // "torch.nn.parallel", ".models"
  std::string name;    // what is taken from it; empty: the module itself
  std::string alias;   // what it is called here
  Node statement;
  bool at_top = false;  // not within a function or a condition
};

struct PythonFunction {
  std::string name;
  std::vector<std::string> parameters;
  Node node;
};

struct PythonClass {
  std::string name;
  std::vector<std::string> bases;  // with imports followed
  Node node;
};

class PythonModule {
 public:
  explicit PythonModule(const SyntaxTree& tree);

  const SyntaxTree& tree() const { return *tree_; }
  const std::vector<PythonCall>& calls() const { return calls_; }
  const std::vector<PythonAssignment>& assignments() const { return assignments_; }
  const std::vector<PythonImport>& imports() const { return imports_; }
  const std::vector<PythonFunction>& functions() const { return functions_; }
  const std::vector<PythonClass>& classes() const { return classes_; }

  // Whether the module itself, or something within it, is imported.
  bool imports_module(std::string_view module) const;
  // A dotted name with the import at its head followed.
  std::string followed(std::string_view dotted) const;
  // The assignments to a name within a function or the module.
  std::vector<const PythonAssignment*> assigned(std::string_view target) const;
  // The one value a name has in this file, when it is assigned once.
  Node only_value_of(std::string_view name) const;

 private:
  void read_import(Node statement);
  void read_call(Node node);
  void read_assignment(Node node, Node function);
  void read_function(Node node);
  void read_class(Node node);

  const SyntaxTree* tree_;
  std::vector<PythonCall> calls_;
  std::vector<PythonAssignment> assignments_;
  std::vector<PythonImport> imports_;
  std::vector<PythonFunction> functions_;
  std::vector<PythonClass> classes_;
  std::map<std::string, std::string, std::less<>> aliases_;  // "np" -> "numpy"
};

// A literal's value, when the node is one.
std::optional<std::string> string_value(Node node);  // plain strings only: no f-strings, no escapes
std::optional<double> number_value(Node node);
std::optional<bool> bool_value(Node node);
bool is_none(Node node);
// All the names that an expression reads.
std::set<std::string> names_in(Node expression);
// The environment variables that an expression reads: os.environ["X"], os.environ.get("X"),
// os.getenv("X").
std::set<std::string> environment_read_in(Node expression);

// Where a new import line goes, with the line endings of the file: after the last import at the
// top, else after the docstring and the comments at the head.
std::size_t import_place(const PythonModule& module);

}  // namespace lockstep
