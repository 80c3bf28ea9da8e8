# Writes docs/findings/*.md into a C++ source, so that `lockstep explain` needs no files beside the binary.
# usage: cmake -DFOLDER=<docs/findings> -DOUTPUT=<file.cpp> -P embed_findings.cmake
cmake_policy(VERSION 3.25)
file(GLOB pages ${FOLDER}/[A-Z][0-9][0-9][0-9].md)
list(SORT pages)
set(text "// Made from docs/findings by cmake/embed_findings.cmake.\n#include \"advice/finding_pages.hpp\"\n\n#include <array>\n\nnamespace lockstep {\nnamespace {\n\nconstexpr std::array kPages = {\n")
foreach(page ${pages})
  get_filename_component(code ${page} NAME_WE)
  file(READ ${page} content)
  string(APPEND text "    FindingPage{\"${code}\", R\"page(${content})page\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const FindingPage> finding_pages() { return kPages; }\n\n}  // namespace lockstep\n")
file(WRITE ${OUTPUT} "${text}")
