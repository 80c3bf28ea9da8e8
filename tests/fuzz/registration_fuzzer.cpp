// Any bytes as a virtual GPU's registration: no crash.
#include <string>

#include "virtual_nvml/compute_threads.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  lockstep::parse_registration(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
