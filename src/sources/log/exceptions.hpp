// Python's exceptions in a log: those that end a program, and those that were caught.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

inline constexpr std::size_t kLinesOfOneEnd = 120;  // all ranks' tracebacks together

// "[rank0]: ", "[train] ", "(RayTrainWorker pid=7) ", "0: ": what launchers put before a rank's
// line.
std::string_view without_its_rank(std::string_view line);

// "TypeError: …", "torch.cuda.SomeError": not what a launcher raises when one of its ranks ended.
bool is_exception(std::string_view line);

// Whether the exception in that line has a traceback above it. A helper's thread ends alone.
bool has_a_traceback(std::span<const std::string> lines, std::size_t exception);

// What ended the program stands right before the launcher's words, or at the end.
std::optional<std::size_t> last_exception(std::span<const std::string> lines);

}  // namespace lockstep
