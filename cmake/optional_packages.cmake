# CUDA, NCCL and libtorch are optional: the reference trainer and later parts (probes) use them,
# the core binary never links them. Each ends as "on" or "off" with the reason, which the summary prints.
set(LOCKSTEP_OPTIONAL_NOTES "")

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "CUDA      found: toolkit ${CUDAToolkit_VERSION}")
else()
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "CUDA      off: no toolkit found (nvcc not on PATH, CUDAToolkit_ROOT not set)")
endif()

find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(LOCKSTEP_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(LOCKSTEP_NCCL_INCLUDE AND LOCKSTEP_NCCL_LIBRARY)
  file(STRINGS ${LOCKSTEP_NCCL_INCLUDE}/nccl.h nccl_lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" nccl_numbers "${nccl_lines}")
  string(REPLACE ";" "." nccl_version "${nccl_numbers}")
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "NCCL      found: ${nccl_version}")
else()
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "NCCL      off: nccl.h or libnccl not found")
endif()

include(libtorch)
