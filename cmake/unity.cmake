# Compiles several sources as one. Headers take most of a small file's time: a detector of 27 lines
# took 2.3 s compiled. File-local names of one target must therefore differ from file to file; the
# build with LOCKSTEP_UNITY=OFF, which every file must pass too, shows includes that are missing.
#
# CMake's own UNITY_BUILD writes absolute paths into its units, so that the compiler's cache finds
# half of them, or none that are tests, when the same sources lie in another folder. These are
# relative to the tree.
option(LOCKSTEP_UNITY "Compile several sources as one" ON)
set(LOCKSTEP_UNITY_SIZE 32 CACHE STRING "Sources compiled as one")

# Takes effect at the end of the folder: all of the target's sources are known then.
function(lockstep_unity target)
  if(LOCKSTEP_UNITY)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL lockstep_write_units ${target})")
  endif()
endfunction()

function(lockstep_write_units target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(units ${CMAKE_CURRENT_BINARY_DIR}/${target}_units)
  set(compiled "")
  set(unit "")
  set(count 0)
  set(number 0)
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cpp$")
      list(APPEND compiled ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    get_source_file_property(apart ${source} TARGET_DIRECTORY ${target} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(generated ${source} TARGET_DIRECTORY ${target} GENERATED)
    if(apart OR generated)
      list(APPEND compiled ${source})
      continue()
    endif()
    cmake_path(IS_PREFIX CMAKE_SOURCE_DIR ${source} is_ours)
    if(is_ours)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    endif()
    string(APPEND unit "#include \"${source}\"\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL LOCKSTEP_UNITY_SIZE)
      lockstep_write_unit(${units}/${number}.cpp "${unit}")
      list(APPEND compiled ${units}/${number}.cpp)
      math(EXPR number "${number} + 1")
      set(unit "")
      set(count 0)
    endif()
  endforeach()
  if(unit)
    lockstep_write_unit(${units}/${number}.cpp "${unit}")
    list(APPEND compiled ${units}/${number}.cpp)
  endif()
  set_target_properties(${target} PROPERTIES SOURCES "${compiled}")
endfunction()

# A macro: source properties belong to the folder's scope.
macro(lockstep_write_unit path content)
  file(CONFIGURE OUTPUT ${path} CONTENT "${content}" @ONLY)
  set_source_files_properties(${path} TARGET_DIRECTORY ${target}
    PROPERTIES INCLUDE_DIRECTORIES ${CMAKE_SOURCE_DIR})
endmacro()
