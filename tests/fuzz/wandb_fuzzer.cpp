// Any bytes as a W&B run file: no crash.
#include <string>

#include "sources/wandb/wandb_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string bytes(":W&B\0\0\0", 7);
  bytes.append(reinterpret_cast<const char*>(data), size);
  lockstep::parse_wandb_file(bytes);
  return 0;
}
