#include "base/dynamic_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep {

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return Error{
        fmt::format("cannot load {}: {}", name, reason != nullptr ? reason : "unknown reason"),
        "check that the library is installed and that LD_LIBRARY_PATH reaches it"};
  }
  return DynamicLibrary(handle);
}

void* DynamicLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace lockstep
