// lockstep-train: a reference of data-parallel training in C++, small enough to read.
//
// Start it alone, or one process per device by `lockstep launch`, torchrun --no-python, srun or
// mpirun.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/file.hpp"
#include "base/text.hpp"
#include "reference_trainer/failure.hpp"
#include "reference_trainer/self_test.hpp"
#include "reference_trainer/trainer.hpp"
#include "training/faults.hpp"
#include "training/train_flags.hpp"

namespace lockstep {
namespace {

int give_up(const TrainFailure& failure, const RankFacts& facts) {
  const std::string rank =
      facts.world > 1 && !failure.is_on_all_ranks() ? fmt::format("rank {}: ", facts.rank) : "";
  if (facts.rank == 0 || !failure.is_on_all_ranks())
    say(fmt::format("lockstep-train: error: {}{}\n  next: {}\n", rank, failure.what(),
                    failure.next()));
  // Rank 0 speaks for all: who ends before it may have the launcher end rank 0 in the middle of its
  // words.
  else
    std::this_thread::sleep_for(std::chrono::seconds(2));
  return failure.kind() == ErrorKind::usage ? 2 : 3;
}

// Throws TrainFailure.
int train(int argc, char** argv, const RankFacts& facts) {
  Result<TrainLine> read = read_train_line(argc, argv);
  if (!read) throw TrainFailure::on_all_ranks(read.error());
  const TrainLine& line = *read;
  if (!line.help.empty()) {
    std::cout << line.help;
    return 0;
  }
  if (line.list_faults) {
    for (const FaultRow& row : all_faults())
      fmt::print("{}\t{}\t{}\t{}\n", row.name, name_of(row.code).id, name_of(row.by), row.what);
    return 0;
  }
  const TrainSettings settings = or_fail(settings_from(line.flags));
  if (line.flags.print_config) {
    std::cout << train_config_text(settings);
    return 0;
  }
  if (!line.self_test.empty()) return run_self_test(line.self_test, facts, settings);
  run_training(settings, facts);
  return 0;
}

int run(int argc, char** argv) {
  // c10d warns with stacks of calls; our own errors have the words
  ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  RankFacts facts;
  try {
    facts =
        rank_from_environment([](const char* name) -> const char* { return std::getenv(name); });
    return train(argc, argv, facts);
  } catch (const TrainFailure& failure) {
    return give_up(failure, facts);
  } catch (const std::exception& problem) {
    return give_up(
        TrainFailure(printable(problem.what()),
                     "this is a fault of lockstep-train; please report it with the command line"),
        facts);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::run(argc, argv); }
