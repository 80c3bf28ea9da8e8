# Every dependency of the core: found on the machine, else fetched at a pinned version and hash.
# On a machine without network set FETCHCONTENT_SOURCE_DIR_<NAME> to an unpacked source folder.
include(FetchContent)
set(FETCHCONTENT_QUIET ON)

# What scripts/setup puts beside the compiler's own search path.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(lockstep_default_cache "$ENV{XDG_CACHE_HOME}/lockstep")
else()
  set(lockstep_default_cache "$ENV{HOME}/.cache/lockstep")
endif()
set(LOCKSTEP_CACHE "${lockstep_default_cache}" CACHE PATH "Where scripts/setup keeps headers and Python peers")

set(LOCKSTEP_DEPENDENCY_NOTES "" CACHE INTERNAL "")
function(lockstep_note_dependency name origin)
  set(LOCKSTEP_DEPENDENCY_NOTES "${LOCKSTEP_DEPENDENCY_NOTES};${name}: ${origin}" CACHE INTERNAL "")
endfunction()

# lockstep_dependency(<package> <target> URL <url> HASH <sha256> [OPTIONS name=value...])
# Makes <target> available, from the machine first.
function(lockstep_dependency package target)
  cmake_parse_arguments(arg "" "URL;HASH;VERSION" "OPTIONS" ${ARGN})
  string(TOUPPER ${package} upper)
  if(NOT DEFINED FETCHCONTENT_SOURCE_DIR_${upper})
    find_package(${package} ${arg_VERSION} QUIET GLOBAL)
    if(TARGET ${target})
      lockstep_note_dependency(${package} "${${package}_VERSION} (found)")
      return()
    endif()
  endif()
  foreach(option ${arg_OPTIONS})
    string(REGEX MATCH "^([^=]+)=(.*)$" unused ${option})
    set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2} CACHE INTERNAL "" FORCE)
  endforeach()
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # CMake 4 refuses older projects that build well
  FetchContent_Declare(${package} URL ${arg_URL} URL_HASH SHA256=${arg_HASH} SYSTEM)
  FetchContent_MakeAvailable(${package})
  if(NOT TARGET ${target})
    message(FATAL_ERROR "lockstep: ${package} was fetched but has no target ${target}\n"
      "  next: run scripts/setup, which installs it from your distribution")
  endif()
  lockstep_note_dependency(${package} "fetched from source")
endfunction()

include(pinned_versions)

# hwloc is loaded at run time, and only for `launch --bind`: its header is enough, and without it that flag says so.
find_path(LOCKSTEP_HWLOC_INCLUDE hwloc.h)
add_library(lockstep_hwloc_header INTERFACE)
if(LOCKSTEP_HWLOC_INCLUDE)
  target_include_directories(lockstep_hwloc_header SYSTEM INTERFACE ${LOCKSTEP_HWLOC_INCLUDE})
  target_compile_definitions(lockstep_hwloc_header INTERFACE LOCKSTEP_HWLOC)
  lockstep_note_dependency(hwloc "${LOCKSTEP_HWLOC_INCLUDE} (found)")
else()
  lockstep_note_dependency(hwloc "not found: launch --bind will say so")
endif()

# protozero is headers only.
find_path(LOCKSTEP_PROTOZERO_INCLUDE protozero/pbf_reader.hpp)
add_library(lockstep_protozero INTERFACE)
if(LOCKSTEP_PROTOZERO_INCLUDE AND NOT DEFINED FETCHCONTENT_SOURCE_DIR_PROTOZERO)
  target_include_directories(lockstep_protozero SYSTEM INTERFACE ${LOCKSTEP_PROTOZERO_INCLUDE})
  lockstep_note_dependency(protozero "${LOCKSTEP_PROTOZERO_INCLUDE} (found)")
else()
  FetchContent_Declare(protozero URL ${LOCKSTEP_PROTOZERO_URL} URL_HASH SHA256=${LOCKSTEP_PROTOZERO_HASH} SYSTEM SOURCE_SUBDIR include)
  FetchContent_MakeAvailable(protozero)
  target_include_directories(lockstep_protozero SYSTEM INTERFACE ${protozero_SOURCE_DIR}/include)
  lockstep_note_dependency(protozero "fetched from source")
endif()

# zstd's own CMake package exists only in newer releases; the library and its header are enough.
find_path(LOCKSTEP_ZSTD_INCLUDE zstd.h)
find_library(LOCKSTEP_ZSTD_LIBRARY zstd)
add_library(lockstep_zstd INTERFACE)
if(LOCKSTEP_ZSTD_INCLUDE AND LOCKSTEP_ZSTD_LIBRARY AND NOT DEFINED FETCHCONTENT_SOURCE_DIR_ZSTD)
  target_include_directories(lockstep_zstd SYSTEM INTERFACE ${LOCKSTEP_ZSTD_INCLUDE})
  target_link_libraries(lockstep_zstd INTERFACE ${LOCKSTEP_ZSTD_LIBRARY})
  lockstep_note_dependency(zstd "${LOCKSTEP_ZSTD_LIBRARY} (found)")
else()
  set(ZSTD_BUILD_PROGRAMS OFF CACHE INTERNAL "")
  set(ZSTD_BUILD_SHARED OFF CACHE INTERNAL "")
  set(ZSTD_BUILD_TESTS OFF CACHE INTERNAL "")
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
  FetchContent_Declare(zstd URL ${LOCKSTEP_ZSTD_URL} URL_HASH SHA256=${LOCKSTEP_ZSTD_HASH}
    SOURCE_SUBDIR build/cmake SYSTEM)
  FetchContent_MakeAvailable(zstd)
  target_link_libraries(lockstep_zstd INTERFACE libzstd_static)
  target_include_directories(lockstep_zstd SYSTEM INTERFACE ${zstd_SOURCE_DIR}/lib)
  lockstep_note_dependency(zstd "fetched from source")
endif()

# zlib is everywhere, with a CMake package of CMake's own.
if(NOT DEFINED FETCHCONTENT_SOURCE_DIR_ZLIB)
  find_package(ZLIB QUIET)
endif()
if(TARGET ZLIB::ZLIB)
  lockstep_note_dependency(zlib "${ZLIB_VERSION_STRING} (found)")
else()
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
  FetchContent_Declare(zlib URL ${LOCKSTEP_ZLIB_URL} URL_HASH SHA256=${LOCKSTEP_ZLIB_HASH} SYSTEM)
  FetchContent_MakeAvailable(zlib)
  target_include_directories(zlibstatic SYSTEM INTERFACE ${zlib_SOURCE_DIR} ${zlib_BINARY_DIR})
  add_library(ZLIB::ZLIB ALIAS zlibstatic)
  lockstep_note_dependency(zlib "fetched from source")
endif()

# NVML: the header at build time, dlopen at run time; nothing links it.
find_path(LOCKSTEP_NVML_INCLUDE nvml.h
  HINTS ${LOCKSTEP_CACHE}/deps/nvml
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include /usr/local/cuda/targets/sbsa-linux/include)
if(NOT LOCKSTEP_NVML_INCLUDE)
  message(FATAL_ERROR "lockstep: nvml.h not found (looked in the CUDA toolkit and ${LOCKSTEP_CACHE}/deps/nvml)\n"
    "  next: run scripts/setup, or pass -DLOCKSTEP_NVML_INCLUDE=<folder with nvml.h>")
endif()
lockstep_note_dependency(nvml.h "${LOCKSTEP_NVML_INCLUDE}")
add_library(lockstep_nvml_header INTERFACE)
target_include_directories(lockstep_nvml_header SYSTEM INTERFACE ${LOCKSTEP_NVML_INCLUDE})

find_package(Threads REQUIRED)

# tree-sitter and its grammars: C sources that scripts/setup puts together, for no distribution has all five.
set(LOCKSTEP_TREE_SITTER "${LOCKSTEP_CACHE}/deps/tree-sitter" CACHE PATH "core, python, bash, yaml, json: sources of tree-sitter and its grammars")
if(NOT EXISTS ${LOCKSTEP_TREE_SITTER}/yaml/parser.c)
  message(FATAL_ERROR "lockstep: tree-sitter's sources are not in ${LOCKSTEP_TREE_SITTER}\n"
    "  next: run scripts/setup, or pass -DLOCKSTEP_TREE_SITTER=<folder with core, python, bash, yaml and json>")
endif()
add_library(lockstep_tree_sitter STATIC ${LOCKSTEP_TREE_SITTER}/core/src/lib.c)
target_include_directories(lockstep_tree_sitter SYSTEM PUBLIC ${LOCKSTEP_TREE_SITTER}/core/include)
target_include_directories(lockstep_tree_sitter PRIVATE ${LOCKSTEP_TREE_SITTER}/core/src)
target_compile_options(lockstep_tree_sitter PRIVATE -w)
foreach(language python bash yaml json)
  set(sources ${LOCKSTEP_TREE_SITTER}/${language}/parser.c)
  if(NOT language STREQUAL "json")
    list(APPEND sources ${LOCKSTEP_TREE_SITTER}/${language}/scanner.c)
  endif()
  add_library(lockstep_grammar_${language} OBJECT ${sources})
  target_include_directories(lockstep_grammar_${language} PRIVATE ${LOCKSTEP_TREE_SITTER}/${language})
  target_compile_options(lockstep_grammar_${language} PRIVATE -w)
  target_sources(lockstep_tree_sitter PRIVATE $<TARGET_OBJECTS:lockstep_grammar_${language}>)
endforeach()
# Its C calls functions by older prototypes, which is well defined on every machine and not by UBSan's book.
if(LOCKSTEP_SANITIZE)
  foreach(target lockstep_tree_sitter lockstep_grammar_python lockstep_grammar_bash lockstep_grammar_yaml lockstep_grammar_json)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endforeach()
endif()
lockstep_note_dependency(tree-sitter "${LOCKSTEP_TREE_SITTER}")
