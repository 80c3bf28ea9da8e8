// A shared library opened at run time. Stays open for the life of the process: a thread may be
// inside it.
#pragma once

#include <string>

#include "lockstep/result.hpp"

namespace lockstep {

class DynamicLibrary {
 public:
  static Result<DynamicLibrary> open(const std::string& name);

  // The address of a symbol, or nullptr.
  void* symbol(const char* name) const;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace lockstep
