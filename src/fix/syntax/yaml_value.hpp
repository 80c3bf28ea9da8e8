// The value of a YAML node below its wrappers, tags and anchors.
#pragma once

#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

inline Node yaml_value(Node node) {
  while (node.is("flow_node") || node.is("block_node")) {
    Node inner;
    for (const Node& child : node.children())
      if (!child.is("tag") && !child.is("anchor") && !child.is("comment")) inner = child;
    node = inner;
  }
  return node;
}

}  // namespace lockstep
