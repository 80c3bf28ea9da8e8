#include "sources/flight_recorder/data_tree.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace lockstep {
namespace {

using Value = DataTree::Value;

constexpr std::size_t kMostContainers = 4'000'000;
constexpr std::size_t kMostCopied = std::size_t{1} << 30U;
constexpr std::size_t kDeepest = 64;

Error not_data(const std::string& name, std::string what) {
  return {fmt::format("{} is refused: {}", printable(name), what),
          "a flight recorder's dump holds data only; do not load this file with Python's pickle "
          "either"};
}

Error broken(const std::string& name) {
  return {fmt::format("{} is no whole pickle: it ends or breaks in the middle", printable(name)),
          "take another dump; it is written when a collective times out"};
}

// Lists of numbers come as a call of these, which only say of what kind the list is.
bool is_kind_of_list(std::string_view module, std::string_view function) {
  return module == "torch.jit._pickle" &&
         (function == "build_intlist" || function == "build_doublelist" ||
          function == "build_boollist" || function == "build_tensorlist");
}

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<DataTree> read() {
    while (at_ < bytes_.size()) {
      const auto instruction = static_cast<unsigned char>(bytes_[at_++]);
      if (instruction == '.') {
        if (stack_.empty() || failed_) return broken(name_);
        tree_.root = stack_.back().value;
        return std::move(tree_);
      }
      if (auto refused = step(instruction)) return std::move(*refused);
      if (failed_ || tree_.size() > kMostContainers) return broken(name_);
    }
    return broken(name_);
  }

 private:
  // What is being built may still be changed: containers are kept with their own address.
  struct Slot {
    Value value;
    DataTree::List* list = nullptr;
    DataTree::Dictionary* dictionary = nullptr;
    bool is_mark = false;
    bool is_kind = false;
  };

  template <class T>
  T number() {
    T value{};
    if (bytes_.size() - at_ < sizeof(T)) {
      failed_ = true;
      return value;
    }
    // little-endian, as all machines with a GPU are
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::string_view text(std::uint64_t length) {
    if (length > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    const std::string_view result = bytes_.substr(at_, length);
    at_ += length;
    return result;
  }

  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      failed_ = true;
      return {};
    }
    const std::string_view result = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }

  void push(Value value) { stack_.push_back({std::move(value), nullptr, nullptr, false, false}); }
  void push_list() {
    DataTree::List* const list = tree_.make_list();
    stack_.push_back({list, list, nullptr, false, false});
  }
  void push_dictionary() {
    DataTree::Dictionary* const dictionary = tree_.make_dictionary();
    stack_.push_back({dictionary, nullptr, dictionary, false, false});
  }

  Slot pop() {
    if (stack_.empty()) {
      failed_ = true;
      return {};
    }
    Slot slot = std::move(stack_.back());
    stack_.pop_back();
    return slot;
  }

  // Everything above the last mark, in order; the mark goes too.
  std::vector<Slot> pop_to_mark() {
    std::vector<Slot> slots;
    while (!stack_.empty() && !stack_.back().is_mark) {
      slots.push_back(std::move(stack_.back()));
      stack_.pop_back();
    }
    if (stack_.empty()) {
      failed_ = true;
      return {};
    }
    stack_.pop_back();
    return {std::make_move_iterator(slots.rbegin()), std::make_move_iterator(slots.rend())};
  }

  void tuple_of(std::vector<Slot> slots) {
    push_list();
    for (Slot& slot : slots) stack_.back().list->items.push_back(std::move(slot.value));
  }

  void tuple_of_last(std::size_t count) {
    std::vector<Slot> slots(count);
    for (std::size_t i = count; i-- > 0;) slots[i] = pop();
    tuple_of(std::move(slots));
  }

  static std::string key_of(const Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    return "?";
  }

  void append(std::vector<Slot> items) {
    if (stack_.empty() || stack_.back().list == nullptr) {
      failed_ = true;
      return;
    }
    for (Slot& item : items) stack_.back().list->items.push_back(std::move(item.value));
  }

  void set(std::vector<Slot> items) {
    if (stack_.empty() || stack_.back().dictionary == nullptr || items.size() % 2 != 0) {
      failed_ = true;
      return;
    }
    for (std::size_t i = 0; i < items.size(); i += 2)
      stack_.back().dictionary->entries[key_of(items[i].value)] = std::move(items[i + 1].value);
  }

  void remember(std::uint64_t place) {
    if (stack_.empty() || place > kMostContainers)
      failed_ = true;
    else
      memory_[place] = stack_.back();
  }

  void recall(std::uint64_t place) {
    const auto found = memory_.find(place);
    if (found == memory_.end())
      failed_ = true;
    else
      push_copy(found->second);
  }

  // Texts are copied: a few bytes that ask for the same one a million times must not fill the
  // memory.
  void push_copy(Slot slot) {
    if (const auto* words = std::get_if<std::string>(&slot.value)) copied_bytes_ += words->size();
    if (copied_bytes_ > kMostCopied)
      failed_ = true;
    else
      stack_.push_back(std::move(slot));
  }

  void long_number(std::size_t length) {
    const std::string_view digits = text(length);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < digits.size() && i < 8; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    if (!digits.empty() && digits.size() < 8 &&
        (static_cast<unsigned char>(digits.back()) & 0x80U) != 0)
      value |= ~std::uint64_t{0} << (8 * digits.size());
    push(static_cast<std::int64_t>(value));
  }

  std::optional<Error> name_of_code(std::string_view module, std::string_view function) {
    if (failed_) return std::nullopt;
    if (!is_kind_of_list(module, function))
      return not_data(name_, fmt::format("it names code to run, {}.{}", printable(module),
                                         printable(function)));
    push({});
    stack_.back().is_kind = true;
    return std::nullopt;
  }

  // The one call that is known: a list of numbers.
  std::optional<Error> call() {
    const Slot arguments = pop();
    const Slot kind = pop();
    if (failed_) return std::nullopt;
    if (!kind.is_kind || arguments.list == nullptr || arguments.list->items.empty())
      return not_data(name_, "it calls something");
    push(arguments.list->items.front());
    return std::nullopt;
  }

  std::optional<Error> step(unsigned char instruction) {
    switch (instruction) {
      case 0x80: number<std::uint8_t>(); break;   // protocol
      case 0x95: number<std::uint64_t>(); break;  // frame
      case '(': stack_.push_back({{}, nullptr, nullptr, true, false}); break;
      case '0': pop(); break;
      case '1': pop_to_mark(); break;
      case '2':
        if (stack_.empty())
          failed_ = true;
        else
          push_copy(stack_.back());
        break;
      case 'N': push({}); break;
      case 0x88: push(true); break;
      case 0x89: push(false); break;
      case 'J': push(static_cast<std::int64_t>(number<std::int32_t>())); break;
      case 'K': push(static_cast<std::int64_t>(number<std::uint8_t>())); break;
      case 'M': push(static_cast<std::int64_t>(number<std::uint16_t>())); break;
      case 0x8a: long_number(number<std::uint8_t>()); break;
      case 0x8b: long_number(number<std::uint32_t>()); break;
      case 'G': push(std::bit_cast<double>(swapped(number<std::uint64_t>()))); break;  // big-endian
      case 'X':
      case 'B': push(std::string(text(number<std::uint32_t>()))); break;
      case 0x8c:
      case 'C': push(std::string(text(number<std::uint8_t>()))); break;
      case 0x8d:
      case 0x8e: push(std::string(text(number<std::uint64_t>()))); break;
      case ']':
      case ')': push_list(); break;
      case '}': push_dictionary(); break;
      case 'l':
      case 't': tuple_of(pop_to_mark()); break;
      case 0x85: tuple_of_last(1); break;
      case 0x86: tuple_of_last(2); break;
      case 0x87: tuple_of_last(3); break;
      case 'a': {
        std::vector<Slot> one;
        one.push_back(pop());
        append(std::move(one));
        break;
      }
      case 'e': append(pop_to_mark()); break;
      case 's': {
        std::vector<Slot> two(2);
        two[1] = pop();
        two[0] = pop();
        set(std::move(two));
        break;
      }
      case 'u': set(pop_to_mark()); break;
      case 'q': remember(number<std::uint8_t>()); break;
      case 'r': remember(number<std::uint32_t>()); break;
      case 0x94: remember(memory_.size()); break;
      case 'h': recall(number<std::uint8_t>()); break;
      case 'j': recall(number<std::uint32_t>()); break;
      case 'c': {
        const auto module = line();
        const auto function = line();
        return name_of_code(module, function);
      }
      case 0x93: {
        const Slot function = pop();
        const Slot module = pop();
        return name_of_code(key_of(module.value), key_of(function.value));
      }
      case 'R': return call();
      default:
        return not_data(name_, fmt::format("it holds an instruction that builds no data (0x{:02x})",
                                           instruction));
    }
    return std::nullopt;
  }

  static std::uint64_t swapped(std::uint64_t value) {
    std::uint64_t result = 0;
    for (int i = 0; i < 8; ++i) result = (result << 8U) | ((value >> (8 * i)) & 0xFFU);
    return result;
  }

  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
  bool failed_ = false;
  std::size_t copied_bytes_ = 0;
  std::vector<Slot> stack_;
  std::map<std::uint64_t, Slot> memory_;
  DataTree tree_;
};

Value value_of(const nlohmann::json& json, DataTree& tree, std::size_t depth) {
  if (depth > kDeepest) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    DataTree::List* const list = tree.make_list();
    for (const auto& item : json) list->items.push_back(value_of(item, tree, depth + 1));
    return list;
  }
  if (json.is_object()) {
    DataTree::Dictionary* const dictionary = tree.make_dictionary();
    for (const auto& [key, item] : json.items())
      dictionary->entries[key] = value_of(item, tree, depth + 1);
    return dictionary;
  }
  return {};
}

}  // namespace

Result<DataTree> read_pickle(std::string_view bytes, const std::string& name) {
  return Unpickler(bytes, name).read();
}

Result<DataTree> read_json(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded())
    return Error{fmt::format("{} is no whole JSON", printable(name)),
                 "take another dump; it is written when a collective times out"};
  DataTree tree;
  tree.root = value_of(json, tree, 0);
  return tree;
}

}  // namespace lockstep
