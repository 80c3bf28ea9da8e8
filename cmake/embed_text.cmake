# Writes a text file into a C++ source as a constant.
# usage: cmake -DINPUT=<file> -DNAME=<constant> -DOUTPUT=<file.cpp> -P embed_text.cmake
cmake_policy(VERSION 3.25)
file(READ ${INPUT} content)
file(WRITE ${OUTPUT} "// Made from a data file by cmake/embed_text.cmake.\n#include <string_view>\n\nnamespace lockstep {\nextern const std::string_view ${NAME};\nconst std::string_view ${NAME} = R\"text(${content})text\";\n}  // namespace lockstep\n")
