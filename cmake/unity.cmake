# Compiles several sources as one. Headers take most of a small file's time: a detector of 27 lines
# took 2.3 s alone. File-local names of one target must therefore differ from file to file; the
# build with LOCKSTEP_UNITY=OFF, which every file must pass too, shows includes that are missing.
option(LOCKSTEP_UNITY "Compile several sources as one" ON)
set(LOCKSTEP_UNITY_SIZE 16 CACHE STRING "Sources compiled as one")

function(lockstep_unity target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE ${LOCKSTEP_UNITY_SIZE})
endfunction()
