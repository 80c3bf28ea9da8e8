#include "fix/syntax/syntax_tree.hpp"

#include <tree_sitter/api.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

extern "C" {
const TSLanguage* tree_sitter_python();
const TSLanguage* tree_sitter_bash();
const TSLanguage* tree_sitter_yaml();
const TSLanguage* tree_sitter_json();
}

namespace lockstep {
namespace {

// A file that keeps the parser busy for longer is garbage: 1 MB of Python takes about 0.2 s here.
// Of this thread's own time: on a busy machine, or after Ctrl-Z, a good file must still be read.
constexpr double kLongestSeconds = 3;

double seconds_of_this_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const TSLanguage* grammar_of(Language language) {
  switch (language) {
    case Language::python: return tree_sitter_python();
    case Language::bash: return tree_sitter_bash();
    case Language::yaml: return tree_sitter_yaml();
    case Language::json: return tree_sitter_json();
  }
  return nullptr;
}

const TSLanguage* as_grammar(const void* grammar) {
  return static_cast<const TSLanguage*>(grammar);
}

struct Input {
  std::string_view text;
  double give_up_at;
};

const char* read_text(void* payload, std::uint32_t offset, TSPoint, std::uint32_t* length) {
  const std::string_view text = static_cast<Input*>(payload)->text;
  if (offset >= text.size()) {
    *length = 0;
    return "";
  }
  *length = static_cast<std::uint32_t>(text.size() - offset);
  return text.data() + offset;
}

bool took_too_long(TSParseState* state) {
  return seconds_of_this_thread() > static_cast<Input*>(state->payload)->give_up_at;
}

// The names of a grammar's kinds, measured once: each question about a node asks for one.
const std::vector<std::string_view>& kind_names(Language language) {
  static const std::array<std::vector<std::string_view>, 4> kNames = [] {
    std::array<std::vector<std::string_view>, 4> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const TSLanguage* const one = grammar_of(static_cast<Language>(i));
      for (std::uint32_t kind = 0; kind < ts_language_symbol_count(one); ++kind)
        all[i].emplace_back(ts_language_symbol_name(one, static_cast<TSSymbol>(kind)));
    }
    return all;
  }();
  return kNames[static_cast<std::size_t>(language)];
}

// A parser a thread: making one costs more than parsing a small file.
TSParser* parser_of_this_thread() {
  thread_local const std::unique_ptr<TSParser, decltype(&ts_parser_delete)> parser(
      ts_parser_new(), ts_parser_delete);
  return parser.get();
}

}  // namespace

std::string_view Node::kind() const {
  if (tree_ == nullptr) return {};
  const std::uint16_t kind = tree_->nodes_[index_].kind;
  if (kind < tree_->kinds_->size()) return (*tree_->kinds_)[kind];
  return ts_language_symbol_name(as_grammar(tree_->grammar_), kind);  // what could not be read
}
std::size_t Node::from() const { return tree_ == nullptr ? 0 : tree_->nodes_[index_].from; }
std::size_t Node::to() const { return tree_ == nullptr ? 0 : tree_->nodes_[index_].to; }
std::string_view Node::text() const {
  return tree_ == nullptr ? std::string_view() : tree_->source_.substr(from(), to() - from());
}
std::uint32_t Node::end_index() const { return tree_ == nullptr ? 0 : tree_->nodes_[index_].end; }
bool Node::is_named() const { return tree_ != nullptr && tree_->nodes_[index_].named; }

Node Node::parent() const {
  return tree_ == nullptr || index_ == 0 ? Node() : Node(*tree_, tree_->nodes_[index_].parent);
}

Node Node::enclosing(std::string_view kind_wanted) const {
  for (Node node = parent(); node; node = node.parent())
    if (node.kind() == kind_wanted) return node;
  return {};
}

std::vector<Node> Node::all_children() const {
  std::vector<Node> children;
  if (tree_ == nullptr) return children;
  const std::uint32_t end = tree_->nodes_[index_].end;
  for (std::uint32_t child = index_ + 1; child < end; child = tree_->nodes_[child].end)
    children.emplace_back(*tree_, child);
  return children;
}

std::vector<Node> Node::children() const {
  std::vector<Node> children = all_children();
  std::erase_if(children, [](const Node& child) { return !child.is_named(); });
  return children;
}

Node Node::child(std::size_t position) const {
  const auto named = children();
  return position < named.size() ? named[position] : Node();
}

std::vector<Node> Node::fields(std::string_view name) const {
  std::vector<Node> found;
  if (tree_ == nullptr) return found;
  const TSFieldId id = ts_language_field_id_for_name(as_grammar(tree_->grammar_), name.data(),
                                                     static_cast<std::uint32_t>(name.size()));
  const std::uint32_t end = tree_->nodes_[index_].end;
  for (std::uint32_t child = index_ + 1; id != 0 && child < end; child = tree_->nodes_[child].end)
    if (tree_->nodes_[child].field == id) found.emplace_back(*tree_, child);
  return found;
}

Node Node::field(std::string_view name) const {
  const auto found = fields(name);
  return found.empty() ? Node() : found.front();
}

std::vector<Node> Node::descendants(std::string_view kind_wanted) const {
  std::vector<Node> found;
  if (tree_ == nullptr) return found;
  for (std::uint32_t index = index_; index < tree_->nodes_[index_].end; ++index)
    if (const Node node(*tree_, index); node.is_named() && node.kind() == kind_wanted)
      found.push_back(node);
  return found;
}

bool SyntaxTree::nests_too_deep(Language language, std::string_view source) {
  if (language != Language::yaml) return false;
  // Each level begins at a column of its own, at most two at one (a list under its key).
  constexpr std::size_t kMostColumns = 100;
  std::vector<bool> begins;
  std::size_t columns = 0;
  for (std::size_t start = 0; start < source.size();) {
    const std::size_t end = std::min(source.find('\n', start), source.size());
    const std::string_view line = source.substr(start, end - start);
    // Blanks, and what opens a level in the middle of a line: "- ", "? ", ": ".
    std::size_t column = 0;
    while ((column = line.find_first_not_of(" \t", column)) != std::string_view::npos) {
      if (column >= begins.size()) begins.resize(column + 1);
      if (!begins[column]) ++columns;
      begins[column] = true;
      const bool opens =
          (line[column] == '-' || line[column] == '?' || line[column] == ':') &&
          (column + 1 == line.size() || line[column + 1] == ' ' || line[column + 1] == '\t');
      if (!opens) break;
      ++column;
    }
    if (columns > kMostColumns) return true;
    start = end + 1;
  }
  return false;
}

std::optional<SyntaxTree> SyntaxTree::parse(Language language, std::string_view source) {
  if (nests_too_deep(language, source)) return std::nullopt;
  const TSLanguage* const grammar = grammar_of(language);
  TSParser* const parser = parser_of_this_thread();
  if (!ts_parser_set_language(parser, grammar)) return std::nullopt;
  ts_parser_reset(parser);
  Input input{source, seconds_of_this_thread() + kLongestSeconds};
  const std::unique_ptr<TSTree, decltype(&ts_tree_delete)> parsed(
      ts_parser_parse_with_options(parser, nullptr,
                                   {&input, read_text, TSInputEncodingUTF8, nullptr},
                                   {&input, took_too_long}),
      ts_tree_delete);
  if (!parsed) {
    ts_parser_reset(parser);
    return std::nullopt;
  }

  SyntaxTree tree;
  tree.source_ = source;
  tree.grammar_ = grammar;
  tree.kinds_ = &kind_names(language);
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(parsed.get()));
  std::vector<std::uint32_t> open;  // the nodes above the cursor
  for (bool done = false; !done;) {
    const TSNode node = ts_tree_cursor_current_node(&cursor);
    const auto index = static_cast<std::uint32_t>(tree.nodes_.size());
    tree.nodes_.push_back({ts_node_start_byte(node), ts_node_end_byte(node),
                           open.empty() ? 0 : open.back(), 0, ts_node_symbol(node),
                           ts_tree_cursor_current_field_id(&cursor), ts_node_is_named(node)});
    if (ts_node_is_error(node) || ts_node_is_missing(node))
      tree.errors_.push_back({ts_node_start_byte(node), ts_node_end_byte(node)});
    open.push_back(index);
    if (ts_tree_cursor_goto_first_child(&cursor)) continue;
    for (;;) {
      tree.nodes_[open.back()].end = static_cast<std::uint32_t>(tree.nodes_.size());
      open.pop_back();
      if (ts_tree_cursor_goto_next_sibling(&cursor)) break;
      if (!ts_tree_cursor_goto_parent(&cursor)) {
        done = true;
        break;
      }
    }
  }
  ts_tree_cursor_delete(&cursor);
  return tree;
}

}  // namespace lockstep
