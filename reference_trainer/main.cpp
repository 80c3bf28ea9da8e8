// lockstep-train: a reference of data-parallel training in C++, small enough to read.
//
// Start it alone, or one process a device by `lockstep launch`, torchrun --no-python, srun or mpirun.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "base/file.hpp"
#include "base/text.hpp"
#include "reference_trainer/failure.hpp"
#include "reference_trainer/self_test.hpp"
#include "reference_trainer/trainer.hpp"
#include "training/train_flags.hpp"

namespace lockstep {
namespace {

// What is wrong with the settings is wrong on every rank: one says it.
int give_up(const std::string& what, const std::string& next, ErrorKind kind) {
  const char* const rank = std::getenv("RANK");
  if (kind == ErrorKind::usage && rank != nullptr && std::string_view(rank) != "0") return 2;
  say(fmt::format("lockstep-train: error: {}\n  next: {}\n", what, next));
  return kind == ErrorKind::usage ? 2 : 3;
}

int run(int argc, char** argv) {
  CLI::App app{"lockstep-train trains a GPT on one device or many"};
  TrainFlags flags;
  add_train_flags(app, flags);
  std::string self_test;
  app.add_option("--selftest", self_test, "check what ranks say to each other: collectives")->type_name("NAME");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& problem) {
    const Error error = explain_flags(problem, app, {argv + 1, argv + argc});
    return give_up(error.what, error.next, ErrorKind::usage);
  }
  try {
    const TrainSettings settings = or_fail(settings_from(flags));
    if (flags.print_config) {
      std::cout << train_config_text(settings);
      return 0;
    }
    const RankFacts facts = rank_from_environment([](const char* name) -> const char* { return std::getenv(name); });
    if (!self_test.empty()) return run_self_test(self_test, facts, settings);
    run_training(settings, facts);
    return 0;
  } catch (const TrainFailure& failure) {
    return give_up(failure.what(), failure.next(), failure.kind());
  } catch (const std::exception& problem) {
    return give_up(printable(problem.what()), "this is a fault of lockstep-train; please report it with the command line", ErrorKind::cannot_measure);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::run(argc, argv); }
