#include "commands/command_line.hpp"

int main(int argc, char** argv) { return lockstep::run_command_line(argc, argv); }
