// Where a value was made: back over assignments, what functions return, parameters and attributes,
// with functions' own scopes.
//
// Names are followed without regard to order: all that a name is ever given counts. Where a way is
// lost (an import from elsewhere, a key that is computed) the answer says that there may be more.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fix/facts/training_code.hpp"

namespace lockstep {

struct Origin {
  FileId file = 0;
  Node expression;
};

struct Origins {
  std::vector<Origin> all;
  bool complete = true;  // false: it may come from elsewhere too
};

class ValueOrigins {
 public:
  ValueOrigins(const Project& project, const TrainingCode& code);

  Origins of(FileId file, Node expression) const;
  // The calls among them, of these last names: all {"DataLoader"} that a loop may go over.
  std::vector<CallAt> calls(FileId file, Node expression,
                            std::initializer_list<std::string_view> names) const;

  // The function that a call means, over the imports of its file; nothing where two would do.
  struct Function {
    FileId file = 0;
    Node node;
  };
  const Function* function(FileId file, std::string_view callee) const;
  // The calls that mean a function; those of a class for its __init__.
  std::vector<CallAt> callers(FileId file, Node function) const;
  const PythonCall* call_at(FileId file, Node node) const;

 private:
  class Trail;
  bool may_mean(FileId from, std::string_view callee, FileId file, Node function) const;

  const Project& project_;
  std::multimap<std::string, Function, std::less<>> functions_;
  std::multimap<std::string, CallAt, std::less<>> calls_;
  std::map<std::pair<FileId, std::uint32_t>, const PythonCall*> call_nodes_;
};

}  // namespace lockstep
