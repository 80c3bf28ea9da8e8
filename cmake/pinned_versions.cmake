# The versions that are built from source where the distribution has none. They are the versions of
# Debian 12, so that both ways build the same code.
set(github https://github.com)

set(LOCKSTEP_GTEST_URL ${github}/google/googletest/archive/refs/tags/release-1.12.1.tar.gz)
set(LOCKSTEP_GTEST_HASH 81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2)
set(LOCKSTEP_ZSTD_URL ${github}/facebook/zstd/releases/download/v1.5.4/zstd-1.5.4.tar.gz)
set(LOCKSTEP_ZSTD_HASH 0f470992aedad543126d06efab344dc5f3e171893810455787d38347343a4424)
set(LOCKSTEP_ZLIB_URL ${github}/madler/zlib/releases/download/v1.2.13/zlib-1.2.13.tar.gz)
set(LOCKSTEP_ZLIB_HASH b3a24de97a8fdbc835b9833169501030b8977031bcb54b3b3ac13740f846ab30)
set(LOCKSTEP_PROTOZERO_URL ${github}/mapbox/protozero/archive/refs/tags/v1.7.1.tar.gz)
set(LOCKSTEP_PROTOZERO_HASH 27e0017d5b3ba06d646a3ec6391d5ccc8500db821be480aefd2e4ddc3de5ff99)
# Debian's 0.11.4 is built as a library of its own, whose source differs from the release: the next release with the same interface.
set(LOCKSTEP_HTTPLIB_URL ${github}/yhirose/cpp-httplib/archive/v0.14.3.tar.gz)
set(LOCKSTEP_HTTPLIB_HASH dcf6486d9030937636d8a4f820ca9531808fd7edb283893dddbaa05f99357e63)

lockstep_dependency(fmt fmt::fmt
  URL ${github}/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
  HASH 5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
lockstep_dependency(CLI11 CLI11::CLI11
  URL ${github}/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
  HASH 26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb
  OPTIONS CLI11_BUILD_TESTS=OFF CLI11_BUILD_EXAMPLES=OFF CLI11_BUILD_DOCS=OFF CLI11_PRECOMPILED=OFF)
lockstep_dependency(nlohmann_json nlohmann_json::nlohmann_json
  URL ${github}/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz
  HASH d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273
  OPTIONS JSON_BuildTests=OFF)
lockstep_dependency(simdjson simdjson::simdjson
  URL ${github}/simdjson/simdjson/archive/refs/tags/v3.0.1.tar.gz
  HASH 156b1bc5eb0561b2bd166b46d191fd3d95a3e709cc63761477d3b7aec2b6e9ed
  OPTIONS SIMDJSON_DEVELOPER_MODE=OFF)
# Its core alone: the text format and its types. HTTP is cpp-httplib's, for both directions.
lockstep_dependency(prometheus-cpp prometheus-cpp::core
  URL ${github}/jupp0r/prometheus-cpp/archive/v1.0.1.tar.gz
  HASH 593e028d401d3298eada804d252bc38d8cab3ea1c9e88bcd72095281f85e6d16
  OPTIONS ENABLE_PULL=OFF ENABLE_PUSH=OFF ENABLE_TESTING=OFF ENABLE_COMPRESSION=OFF GENERATE_PKGCONFIG=OFF)
# FTXUI is that of Debian 13, for Debian 12 has none: scripts/setup puts its source there.
if(NOT DEFINED FETCHCONTENT_SOURCE_DIR_FTXUI AND EXISTS ${LOCKSTEP_CACHE}/deps/ftxui/CMakeLists.txt)
  set(FETCHCONTENT_SOURCE_DIR_FTXUI ${LOCKSTEP_CACHE}/deps/ftxui)
endif()
lockstep_dependency(ftxui ftxui::dom
  URL ${github}/ArthurSonzogni/FTXUI/archive/refs/tags/v5.0.0.tar.gz
  HASH a2991cb222c944aee14397965d9f6b050245da849d8c5da7c72d112de2786b5b
  OPTIONS FTXUI_BUILD_EXAMPLES=OFF FTXUI_BUILD_DOCS=OFF FTXUI_BUILD_TESTS=OFF FTXUI_ENABLE_INSTALL=OFF FTXUI_QUIET=ON)
if(TARGET component)  # its event loop is not used: docs/decisions/0008
  set_target_properties(component PROPERTIES EXCLUDE_FROM_ALL TRUE)
  foreach(part screen dom)
    target_compile_options(${part} PRIVATE -w)  # it asks for warnings, and g++ 12 gives some false ones (-Wrestrict)
    lockstep_unity(${part})  # its 50 small files take a minute alone, a sixth of that together
  endforeach()
  # These three have file-local names of others.
  get_target_property(ftxui_source dom SOURCE_DIR)
  foreach(name separator table util)
    set_source_files_properties(${ftxui_source}/src/ftxui/dom/${name}.cpp TARGET_DIRECTORY dom
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endif()
