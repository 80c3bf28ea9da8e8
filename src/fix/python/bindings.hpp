// Which names have a value where: what an inserted line may lean on.
#pragma once

#include <string_view>

#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

// Whether anything within a node gives the name a value: an assignment, a loop, an import, a
// definition. Functions and comprehensions within it keep their names to themselves.
bool binds(Node within, std::string_view name);

// Whether the name has a value on every way that leads to a node: assigned before it under no
// condition, or under conditions that leave no other way; a parameter; a name of the module that a
// function sees later; a builtin.
bool is_certainly_bound(Node at, std::string_view name);

// Whether an identifier is read there: no target, no label, no attribute's name.
bool is_read(Node identifier);

}  // namespace lockstep
