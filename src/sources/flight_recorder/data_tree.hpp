// Plain data: numbers, texts, lists, dictionaries. What a JSON file or a pickle without code comes
// to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

class DataTree {
 public:
  struct List;
  struct Dictionary;
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, const List*,
                             const Dictionary*>;
  struct List {
    std::vector<Value> items;
  };
  struct Dictionary {
    std::map<std::string, Value, std::less<>> entries;
  };

  List* make_list() { return lists_.emplace_back(std::make_unique<List>()).get(); }
  Dictionary* make_dictionary() {
    return dictionaries_.emplace_back(std::make_unique<Dictionary>()).get();
  }
  std::size_t size() const { return lists_.size() + dictionaries_.size(); }

  Value root;

 private:
  // Owned here, so that data that contains itself does no harm.
  std::vector<std::unique_ptr<List>> lists_;
  std::vector<std::unique_ptr<Dictionary>> dictionaries_;
};

// A pickle is a program. Only the instructions that build data are known; any other, and any name
// of code, is refused.
Result<DataTree> read_pickle(std::string_view bytes, const std::string& name);
Result<DataTree> read_json(std::string_view text, const std::string& name);

}  // namespace lockstep
