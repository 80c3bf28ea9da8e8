// A parsed text: its nodes in one array, in the order in which they stand, with byte ranges over
// the untouched source.
//
// tree-sitter makes the tree; it is flattened at once, so that a node's parent is an index and not
// a walk from the root (ts_node_parent is one), nothing here recurses however deep a text nests,
// and no other file knows of tree-sitter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class Language : std::uint8_t { python, bash, yaml, json };

class SyntaxTree;

// A handle, as cheap as a pointer. An absent node is false, has no children and an empty text.
class Node {
 public:
  Node() = default;
  Node(const SyntaxTree& tree, std::uint32_t index) : tree_(&tree), index_(index) {}

  explicit operator bool() const { return tree_ != nullptr; }
  bool operator==(const Node&) const = default;

  std::string_view kind() const;  // the grammar's word: "call", "keyword_argument"
  bool is(std::string_view kind_wanted) const { return tree_ != nullptr && kind() == kind_wanted; }
  std::size_t from() const;
  std::size_t to() const;
  std::string_view text() const;
  bool is_named() const;
  std::uint32_t index() const { return index_; }
  std::uint32_t end_index() const;  // the node after all that are within this one

  Node parent() const;
  Node enclosing(std::string_view kind_wanted) const;  // the nearest parent of the kind
  Node field(std::string_view name) const;             // the child that the grammar calls so
  std::vector<Node> fields(std::string_view name) const;
  std::vector<Node> children() const;      // named ones
  std::vector<Node> all_children() const;  // commas and brackets too
  Node child(std::size_t position) const;  // among the named
  std::vector<Node> descendants(std::string_view kind_wanted) const;
  bool contains(const Node& other) const {
    return tree_ == other.tree_ && from() <= other.from() && other.to() <= to();
  }

 private:
  const SyntaxTree* tree_ = nullptr;
  std::uint32_t index_ = 0;
};

struct ByteRange {
  std::size_t from = 0;
  std::size_t to = 0;
};

class SyntaxTree {
 public:
  // Nothing when the text keeps the processor busy for longer than a few seconds, or is YAML that
  // nests too deep. The source must outlive the tree.
  static std::optional<SyntaxTree> parse(Language language, std::string_view source);

  // tree-sitter-yaml keeps what is open in 1,024 bytes, and writes past them at 254 levels.
  static bool nests_too_deep(Language language, std::string_view source);

  Node root() const { return {*this, 0}; }
  Node at(std::uint32_t index) const { return {*this, index}; }
  std::size_t size() const { return nodes_.size(); }
  std::string_view source() const { return source_; }

  // Where the text does not follow the grammar.
  const std::vector<ByteRange>& errors() const { return errors_; }

 private:
  friend class Node;
  struct Flat {
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t parent;
    std::uint32_t end;  // index after the last node within this one
    std::uint16_t kind;
    std::uint16_t field;  // 0: none
    bool named;
  };
  SyntaxTree() = default;

  std::string_view source_;
  std::vector<Flat> nodes_;
  std::vector<ByteRange> errors_;
  const void* grammar_ = nullptr;
  const std::vector<std::string_view>* kinds_ = nullptr;  // their names
};

}  // namespace lockstep
