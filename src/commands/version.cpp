#include "commands/version.hpp"

#include <fmt/format.h>

#if defined(__aarch64__)
#define LOCKSTEP_MACHINE "aarch64"
#elif defined(__x86_64__)
#define LOCKSTEP_MACHINE "x86_64"
#else
#define LOCKSTEP_MACHINE "other"
#endif

namespace lockstep {

std::string version_number() { return LOCKSTEP_VERSION; }

std::string version_text() {
  return fmt::format(
      "lockstep {} (commit {}, {}, {})\n"
      "built in: NVML (loaded at run time), virtual GPUs, recordings (JSON Lines, zstd)\n",
      LOCKSTEP_VERSION, LOCKSTEP_COMMIT, LOCKSTEP_MACHINE, __VERSION__);
}

}  // namespace lockstep
