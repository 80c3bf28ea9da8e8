# lockstep_test(<name> FOLDERS ... | SOURCES ... LINK ... [LABELS label] [SERIAL] [ONE_THREAD]
#               [FEW_THREADS] [WHOLE_PROGRAM] [UNSANITIZED] [EACH_CASE] [TIMEOUT s])
# One test program per folder (not its subfolders); its cases are found when it is built.
# ONE_THREAD: what it tests has one thread, so that the thread sanitizer would look at nothing.
# FEW_THREADS: only those of base, whose own tests the thread sanitizer sees; scripts/test --whole
# looks here too.
# UNSANITIZED: what it tests is not there in a build with sanitizers, or is no program of ours.
# EACH_CASE: a case needs a process of its own, under a sanitizer too.
lockstep_dependency(GTest GTest::gtest_main URL ${LOCKSTEP_GTEST_URL} HASH ${LOCKSTEP_GTEST_HASH}
  OPTIONS INSTALL_GTEST=OFF)
include(GoogleTest)

# The layers' own test programs (label unit): scripts/test builds and runs them once, under
# sanitizers. Compiling them without as well took 4 of the dev build's 10 minutes.
add_custom_target(unit_tests)
# The others, which scripts/test builds without sanitizers, and the product that they run.
add_custom_target(program_tests)

# Code of tests: several files compiled as one, and not optimized, which would take most of its
# build's time and make nothing faster that is waited for.
function(lockstep_test_code target)
  lockstep_unity(${target})
  target_compile_options(${target} PRIVATE -O0)
  if(LOCKSTEP_SANITIZE)  # what is tested is looked at, not the tests
    target_compile_options(${target} PRIVATE -g1 -fno-sanitize=undefined)
  endif()
  if(LOCKSTEP_FUZZ)
    target_compile_options(${target} PRIVATE -fno-sanitize-coverage=${LOCKSTEP_FUZZ_COVERAGE})
  endif()
endfunction()

function(lockstep_test name)
  cmake_parse_arguments(arg "SERIAL;ONE_THREAD;FEW_THREADS;WHOLE_PROGRAM;UNSANITIZED;EACH_CASE" "LABELS;TIMEOUT"
    "FOLDERS;SOURCES;LINK" ${ARGN})
  if(arg_ONE_THREAD AND LOCKSTEP_SANITIZE STREQUAL "thread")
    return()
  endif()
  foreach(folder ${arg_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
    list(APPEND arg_SOURCES ${found})
  endforeach()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} lockstep_test_support GTest::gmock
    GTest::gtest_main lockstep::warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  lockstep_test_code(${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(arg_SERIAL OR arg_WHOLE_PROGRAM OR arg_UNSANITIZED)
    add_dependencies(program_tests ${name})
  elseif(NOT (arg_FEW_THREADS AND LOCKSTEP_SANITIZE STREQUAL "thread"))
    add_dependencies(unit_tests ${name})
    set(arg_LABELS unit)
    if(LOCKSTEP_SANITIZE AND NOT arg_EACH_CASE)
      # Under a sanitizer a start and an end cost more than a case (leaks are searched for 4 s at
      # each exit, seen on aarch64): one run of the program instead of one for each case.
      add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
      set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300)
      return()
    endif()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS program)
  endif()
  set(properties LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  if(LOCKSTEP_SANITIZE MATCHES "address")
    list(APPEND properties ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
  endif()
  gtest_discover_tests(${name} PROPERTIES ${properties} DISCOVERY_TIMEOUT 60)
endfunction()
