#include "sources/nvml/nvml_api.hpp"

#include <fmt/format.h>

#include <cstring>

namespace lockstep {
namespace {

constexpr const char* kSoname = "libnvidia-ml.so.1";
// Where WSL2 puts the driver's libraries; not on the loader's path in every distribution.
constexpr const char* kWslPath = "/usr/lib/wsl/lib/libnvidia-ml.so.1";

Error no_library(const std::string& reason) {
  return {
      fmt::format("cannot read GPU counters: {}", reason),
      "on a machine without an NVIDIA driver use `lockstep monitor virtual:2`; in a container add "
      "`--gpus all`; `lockstep doctor` says more"};
}

Result<DynamicLibrary> open_library(const std::string& path) {
  if (!path.empty()) return DynamicLibrary::open(path);
  auto library = DynamicLibrary::open(kSoname);
  if (library) return library;
  auto wsl = DynamicLibrary::open(kWslPath);
  return wsl ? std::move(wsl) : std::move(library);
}

enum class Needed { required, optional };

}  // namespace

Result<NvmlApi> NvmlApi::load(const std::string& path) {
  auto library = open_library(path);
  if (!library)
    return no_library(
        path.empty() ? fmt::format("{} not found (tried LD_LIBRARY_PATH, the system's folders, {})",
                                   kSoname, kWslPath)
                     : library.error().what);

  NvmlApi api;
  std::string missing;
  const auto bind = [&](auto& pointer, const char* name, Needed needed) {
    void* const address = library->symbol(name);
    if (address == nullptr && needed == Needed::required && missing.empty()) missing = name;
    static_assert(sizeof pointer == sizeof address);
    std::memcpy(&pointer, &address, sizeof pointer);  // POSIX promises that functions fit in void*
  };
#define LOCKSTEP_NVML_BIND(function, needed) bind(api.function, #function, Needed::needed);
  LOCKSTEP_NVML_FUNCTIONS(LOCKSTEP_NVML_BIND)
#undef LOCKSTEP_NVML_BIND
  if (!missing.empty())
    return Error{fmt::format("the NVIDIA driver is too old: {} has no {}",
                             path.empty() ? kSoname : path, missing),
                 "update the driver to 450 or newer (nvidia-smi shows the version)"};
  return api;
}

}  // namespace lockstep
