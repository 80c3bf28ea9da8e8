// Whether edits of a file may be, whatever the rule that made them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fix/edit.hpp"
#include "fix/project/source_file.hpp"

namespace lockstep {

// Why an edit of this file may not be; empty: it may.
std::string objection(const SourceFile& file, const std::vector<Edit>& edits);

// What a compiler would object to: places outside the grammar, and names that a call is given
// twice.
std::size_t damage_of(const SourceFile& file);

// A name that edits bring into a place where it may have no value; empty: they bring none.
std::string unset_name(const SourceFile& patched, const std::vector<Edit>& edits);

}  // namespace lockstep
