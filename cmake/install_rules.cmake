# Installation keeps the build folder's shape: bin/lockstep, lib/lockstep with the virtual driver and the probes, and a man page.
include(GNUInstallDirs)
install(TARGETS lockstep RUNTIME DESTINATION bin)
install(TARGETS lockstep_virtual_nvml LIBRARY DESTINATION lib/lockstep/virtual NAMELINK_SKIP)
if(TARGET lockstep-train)
  install(TARGETS lockstep-train RUNTIME DESTINATION bin)
endif()
if(TARGET lockstep_train_cuda)
  install(TARGETS lockstep_train_cuda LIBRARY DESTINATION lib/lockstep)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/probes/python/ DESTINATION lib/lockstep/python FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
foreach(probe host cuda nccl)
  if(TARGET lockstep_${probe}_probe)
    install(TARGETS lockstep_${probe}_probe LIBRARY DESTINATION lib/lockstep)
  endif()
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE ${CMAKE_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(NOT CMAKE_CROSSCOMPILING)
  set(man_page ${CMAKE_BINARY_DIR}/share/man/man1/lockstep.1)
  add_custom_command(OUTPUT ${man_page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/man/man1
    COMMAND $<TARGET_FILE:lockstep> man > ${man_page}
    DEPENDS lockstep VERBATIM)
  add_custom_target(man_page ALL DEPENDS ${man_page})
  install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# All that a machine without a GPU can use: what trains on one takes as long to compile as the rest of the trainer.
add_custom_target(product)
foreach(part lockstep lockstep_virtual_nvml lockstep_python_probe lockstep_host_probe lockstep_cuda_probe lockstep_nccl_probe man_page lockstep-train)
  if(TARGET ${part})
    add_dependencies(product ${part})
  endif()
endforeach()
