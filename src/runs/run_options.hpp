// What a run was asked for: the shared options of all commands, typed and checked.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/renderer.hpp"
#include "lockstep/result.hpp"
#include "sources/open_input.hpp"

namespace lockstep {

enum class Format : std::uint8_t { text, json, markdown, html };

struct RunOptions {
  std::string input;
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  bool interval_given = false;  // typed, or of the config file
  std::optional<std::chrono::nanoseconds> duration;
  std::vector<int> gpus;
  std::optional<int> pid;
  Format format = Format::text;
  std::string output;
  Colors colors = Colors::off;
  bool quiet = false;
  std::vector<std::string> command;  // after --
  PrometheusOptions prometheus;

  SourceOptions source_options() const;
  // -o FILE takes the result: standard output is the command's own
  bool writes_to_file() const { return !output.empty() && output != "-"; }
};

// A command's result: to the file after -o, written whole or not at all, else to standard output.
Status put_result(const RunOptions& options, const std::string& text);

// A sentence for the user on standard error, unless --quiet.
void tell(const RunOptions& options, const std::string& sentence);

// Columns of the terminal that standard output is; nothing: it is none.
std::optional<std::size_t> terminal_width();

}  // namespace lockstep
