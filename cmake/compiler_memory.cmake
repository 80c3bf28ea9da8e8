# g++ collects the garbage of its own heap again and again while it compiles a unit of several
# sources: an eighth of the time (signals 20.5 s of the processor, 18.1 without; the command line
# 34.9, 30.6). Without that the largest unit needs 1.7 GB instead of 1.1, so it is done where each
# processor has twice that.
cmake_host_system_information(RESULT lockstep_memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT lockstep_processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR lockstep_memory_mb "${lockstep_memory_mb} / ${lockstep_processors}")
if(lockstep_memory_mb GREATER_EQUAL 3400)
  foreach(language C CXX)
    add_compile_options("$<$<COMPILE_LANG_AND_ID:${language},GNU>:--param=ggc-min-heapsize=8000000>")
  endforeach()
endif()
