// The options that several commands share: their names, their words, their checks. One list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "runs/run_options.hpp"

namespace CLI {
class App;
}

namespace lockstep {

// As typed. Checked once, by check(), so that every command gives the same error for the same
// mistake.
struct RawOptions {
  std::string input;
  std::string interval;
  std::string duration;
  std::string gpus;
  std::string pid;
  std::string format;
  bool json = false;
  std::string output;
  std::string color;
  bool quiet = false;
  std::string config;
  std::vector<std::string> command;  // after --
  // Of a Prometheus server as input.
  std::string selector;
  std::string window;
  std::string job_label;
  std::string token_file;
  std::string ca_file;
  std::string timeout;
};

void add_input_options(CLI::App& app, RawOptions& raw);  // INPUT --interval --duration --gpus
// --selector --window --job-label --token-file --ca-file --timeout
void add_prometheus_options(CLI::App& app, RawOptions& raw);
void add_output_options(CLI::App& app, RawOptions& raw);  // -o --format --json --color
void add_format_options(CLI::App& app, RawOptions& raw);  // the same without -o
void add_common_options(CLI::App& app, RawOptions& raw);  // --quiet --config

// Which formats a command has: markdown and html are for diagnosis reports.
enum class Formats : std::uint8_t { text_and_json, all };

// Reads the config file for what was not typed, and checks everything.
Result<RunOptions> check(const RawOptions& raw, Formats formats = Formats::text_and_json);

}  // namespace lockstep
