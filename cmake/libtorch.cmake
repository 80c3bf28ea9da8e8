# libtorch for the reference trainer, from torch's Python wheel: the CPU half and c10 are linked, CUDA's half is loaded at run
# time (reference_trainer/cuda). TorchConfig.cmake is not used: it asks for a whole CUDA toolkit even then.
# Makes the targets lockstep_libtorch and, where the CUDA and NCCL headers are there, lockstep_libtorch_cuda.
option(LOCKSTEP_TRAINER "Build lockstep-train where libtorch is there" ON)

function(lockstep_find_torch)
  file(GLOB venvs ${LOCKSTEP_CACHE}/torch/lib/python3*/site-packages/torch)
  set(LOCKSTEP_TORCH "${venvs}" CACHE PATH "The folder of the Python package torch (or of a libtorch)")
  if(NOT LOCKSTEP_TORCH)
    # A torch that the machine's own python has, looked up without importing it.
    execute_process(COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
      OUTPUT_VARIABLE found ERROR_QUIET)
    set(LOCKSTEP_TORCH "${found}" CACHE PATH "" FORCE)
  endif()
endfunction()

lockstep_find_torch()
find_path(LOCKSTEP_GLOO_INCLUDE gloo/config.h HINTS ${LOCKSTEP_CACHE}/deps/gloo)
set(libtorch_off "")
if(NOT LOCKSTEP_TRAINER)
  set(libtorch_off "LOCKSTEP_TRAINER is OFF")
elseif(LOCKSTEP_SANITIZE)
  set(libtorch_off "not with sanitizers: libtorch is not built with them")
elseif(NOT EXISTS "${LOCKSTEP_TORCH}/lib/libtorch_cpu.so")
  set(libtorch_off "no torch found (run scripts/setup, or pass -DLOCKSTEP_TORCH=<site-packages/torch>)")
elseif(NOT LOCKSTEP_GLOO_INCLUDE)
  set(libtorch_off "gloo's headers not found (run scripts/setup, or pass -DLOCKSTEP_GLOO_INCLUDE)")
endif()
if(libtorch_off)
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "libtorch  off: ${libtorch_off}, so lockstep-train is not built")
  return()
endif()

file(READ ${LOCKSTEP_TORCH}/version.py torch_version_text)
string(REGEX MATCH "__version__ = '([^']+)'" unused "${torch_version_text}")
set(torch_version ${CMAKE_MATCH_1})
get_filename_component(torch_site ${LOCKSTEP_TORCH} DIRECTORY)
file(GLOB nvidia_libs ${torch_site}/nvidia/*/lib)

add_library(lockstep_libtorch INTERFACE)
target_include_directories(lockstep_libtorch SYSTEM INTERFACE
  ${LOCKSTEP_TORCH}/include ${LOCKSTEP_TORCH}/include/torch/csrc/api/include ${LOCKSTEP_GLOO_INCLUDE})
target_compile_definitions(lockstep_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(lockstep_libtorch INTERFACE ${LOCKSTEP_TORCH}/lib/libtorch_cpu.so ${LOCKSTEP_TORCH}/lib/libc10.so)
# libtorch_cpu.so asks for CUDA's profiler and runtime libraries, which lie beside it in the wheels' own folders.
target_link_options(lockstep_libtorch INTERFACE -Wl,--allow-shlib-undefined)
set(LOCKSTEP_TORCH_RPATH ${LOCKSTEP_TORCH}/lib ${nvidia_libs})
list(APPEND LOCKSTEP_OPTIONAL_NOTES "libtorch  found: ${torch_version}, so lockstep-train is built")

# CUDA's half: headers of the toolkit and of NCCL, the toolkit's or the wheels'.
file(GLOB cuda_includes ${torch_site}/nvidia/cu1*/include)
find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${cuda_includes})
find_path(LOCKSTEP_TRAINER_NCCL_INCLUDE nccl.h HINTS ${torch_site}/nvidia/nccl/include ${LOCKSTEP_NCCL_INCLUDE})
if(LOCKSTEP_CUDA_INCLUDE AND LOCKSTEP_TRAINER_NCCL_INCLUDE AND EXISTS ${LOCKSTEP_TORCH}/lib/libtorch_cuda.so)
  add_library(lockstep_libtorch_cuda INTERFACE)
  target_link_libraries(lockstep_libtorch_cuda INTERFACE lockstep_libtorch ${LOCKSTEP_TORCH}/lib/libtorch_cuda.so ${LOCKSTEP_TORCH}/lib/libc10_cuda.so)
  target_include_directories(lockstep_libtorch_cuda SYSTEM INTERFACE ${LOCKSTEP_CUDA_INCLUDE} ${LOCKSTEP_TRAINER_NCCL_INCLUDE})
  target_compile_definitions(lockstep_libtorch_cuda INTERFACE USE_C10D_NCCL)
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "libtorch  CUDA: lockstep-train uses GPUs where a driver is")
else()
  list(APPEND LOCKSTEP_OPTIONAL_NOTES "libtorch  CUDA off: CUDA or NCCL headers not found, so lockstep-train runs on virtual GPUs")
endif()
