#include <dlfcn.h>

#include "base/file.hpp"
#include "reference_trainer/cuda/cuda_part.hpp"

namespace lockstep {
namespace {

struct Opened {
  const CudaPart* part = nullptr;
  std::string why_not;
};

const Opened& opened() {
  static const Opened result = [] {
    Opened found;
    const std::filesystem::path path =
        executable_folder().parent_path() / "lib" / "lockstep" / "liblockstep_train_cuda.so";
    if (!std::filesystem::exists(path)) {
      found.why_not = "this lockstep-train was built without CUDA";
      return found;
    }
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      found.why_not = ::dlerror();
      return found;
    }
    using MakePart = const CudaPart* (*)();
    const auto make = reinterpret_cast<MakePart>(::dlsym(library, "lockstep_cuda_part"));
    found.part = make != nullptr ? make() : nullptr;
    if (found.part == nullptr) found.why_not = "liblockstep_train_cuda.so is of another lockstep";
    return found;
  }();
  return result;
}

}  // namespace

const CudaPart* cuda_part() { return opened().part; }
const std::string& why_no_cuda() { return opened().why_not; }

}  // namespace lockstep
