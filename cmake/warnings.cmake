# One INTERFACE target that every layer links privately: warnings, and the sanitizers of the preset.
add_library(lockstep_warnings INTERFACE)
add_library(lockstep::warnings ALIAS lockstep_warnings)

target_compile_options(lockstep_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wformat=2
  # Options are written as designated initialisers; what they leave out has its default.
  -Wno-missing-field-initializers
  # g++ 12 reports members of std::optional and std::variant that are never read (GCC bug 105562 and kin).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  # and strings and vectors within them as freed without being allocated.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-free-nonheap-object>
  # With -O3 it reports concatenated strings as overlapping (GCC bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict>
  # clang reports what libstdc++'s own std::stable_sort calls, and names that differ only across
  # the files that are compiled as one (g++, which builds dev, sees the real ones).
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-shadow>)
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_warnings INTERFACE -Werror)
endif()

# Checks of the sanitizers that are left out. Those of every pointer (null, alignment) take a third
# of the build's time; the address sanitizer stops at a null pointer without them, --whole has both.
set(LOCKSTEP_SANITIZE_WITHOUT "" CACHE STRING "As in -fno-sanitize=")
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  if(LOCKSTEP_SANITIZE_WITHOUT)
    add_compile_options(-fno-sanitize=${LOCKSTEP_SANITIZE_WITHOUT})
  endif()
  # 45 programs link in 10 s instead of two minutes.
  find_program(LOCKSTEP_LLD NAMES ld.lld-19)
  if(LOCKSTEP_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=${LOCKSTEP_LLD})
  endif()
endif()
# The readers themselves tell the fuzzer which of their paths an input took. Comparisons that are
# told too (trace-cmp) find magic numbers sooner, for 1.7 times the build's time: --whole has them.
set(LOCKSTEP_FUZZ_COVERAGE "inline-8bit-counters,pc-table" CACHE STRING "As in -fsanitize-coverage=")
if(LOCKSTEP_FUZZ)
  add_compile_options(-fsanitize-coverage=${LOCKSTEP_FUZZ_COVERAGE})
endif()
