#include "runs/exit_code.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace lockstep {

int report_error(const Error& error) {
  say(fmt::format("lockstep: error: {}\n  next: {}\n", error.what, error.next));
  return error.kind == ErrorKind::usage ? exit_code::kUsage : exit_code::kCannotMeasure;
}

}  // namespace lockstep
