// Edits of whole Python statements: a line above one, a condition around one, one away or somewhere
// else.
//
// All of them want the statement to have its lines for itself; where it shares one (`for x in y:
// step()`, `a(); b()`) there are no edits, and the caller shows its finding without a patch.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fix/edit.hpp"
#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

// The statement that a node stands in, and the block or module that holds that.
Node statement_of(Node node);
Node block_of(Node statement);
// The statement right after in the same block.
Node next_statement(Node statement);
// All statements that stand before a node, in its block and in those around it up to `outermost` (a
// loop, or none: up to its function).
std::vector<Node> statements_before(Node node, Node outermost);
// Whether the node is the `for` or `while` of a loop.
bool is_loop(Node node);
// The nearest loop around a node within its function.
Node loop_around(Node node);
// The nearest `if` around a node within its function, other than that of a script's main part.
Node condition_around(Node node);
// Whether everything that a node stands under within a loop (conditions, handlers) is around
// another node, too: a call beside its partner is met whenever that is.
bool stands_under_the_same(Node loop, Node partner, Node other);
// The function around a node; none: the module.
inline Node function_around(Node node) { return node.enclosing("function_definition"); }

// One step deeper, as the text does it: four spaces, two, a tab.
std::string indent_step(std::string_view text);

// Lines above and below a statement, with its indentation; line breaks within `lines` are followed
// by it too.
std::vector<Edit> line_above(std::string_view text, Node statement, std::string_view lines);
std::vector<Edit> line_below(std::string_view text, Node statement, std::string_view lines);
// The first line of a loop's or a function's body, after its docstring.
std::vector<Edit> first_in_body(std::string_view text, Node owner, std::string_view lines);
// Statements of one block, from the first to the last, under a line that ends with a colon: `if
// rank == 0:`. What stands within may be edited, too.
std::vector<Edit> put_under(std::string_view text, Node first, Node last, std::string_view header);
inline std::vector<Edit> put_under(std::string_view text, Node statement, std::string_view header) {
  return put_under(text, statement, statement, header);
}
std::vector<Edit> take_away(std::string_view text, Node statement);
// The statement's text as it would stand right above another.
std::vector<Edit> move_above(std::string_view text, Node statement, Node target);
// The statement right below another, which is one of those around it.
std::vector<Edit> move_below(std::string_view text, Node statement, Node target);

}  // namespace lockstep
