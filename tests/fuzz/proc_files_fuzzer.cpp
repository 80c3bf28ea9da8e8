// Any bytes as files of /proc: no crash, and no environment variable but the listed ones.
#include <cstdlib>
#include <string_view>

#include "sources/host/launcher.hpp"
#include "sources/host/proc_files.hpp"
#include "sources/host/thread_looks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lockstep::parse_stat(text);
  lockstep::parse_status(text);
  lockstep::parse_io(text);
  lockstep::parse_system_call(text);
  lockstep::file_kind_of(text);
  lockstep::doing_by_wait_channel(text);
  lockstep::parse_libraries(text);
  lockstep::parse_passwd(text);
  const auto environment = lockstep::parse_environment(text);
  if (environment.contains("HF_TOKEN") || environment.contains("PATH")) std::abort();
  lockstep::ranks_in(environment);
  lockstep::launcher_hinted_by(environment);
  const auto command = lockstep::parse_command(text);
  lockstep::launcher_named_by(command);
  lockstep::is_multiprocessing_child(command);
  return 0;
}
