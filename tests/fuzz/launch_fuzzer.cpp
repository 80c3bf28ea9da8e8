// Everything that `lockstep launch` reads and did not write: command lines, error files, reports,
// NCCL's log, SLURM's lists.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/slurm.hpp"
#include "base/text.hpp"
#include "launch/arguments/checks.hpp"
#include "launch/arguments/launch_advice.hpp"
#include "launch/arguments/launch_arguments.hpp"
#include "launch/guard/adopted_rank.hpp"
#include "launch/logs/failure.hpp"
#include "launch/logs/kernel_log.hpp"
#include "launch/logs/nccl_log.hpp"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0: {
      std::vector<std::string> words;
      for (const std::string_view word : split(text, '\n')) words.emplace_back(word);
      if (auto settings =
              parse_launch_arguments(words, [](const std::string&) { return std::nullopt; })) {
        (void)endpoint_of(*settings);
        (void)check_accumulation(*settings, text, 3);
      }
      break;
    }
    case 1:
      (void)parse_error_file(text);
      (void)with_error_code(text, -9);
      break;
    case 2:
      if (const auto advice = advice_in_report(text)) {
        LaunchSettings settings;
        (void)take_advice(*advice, settings);
      }
      break;
    case 3: {
      NcclFacts facts;
      read_nccl_log(text, facts);
      (void)in_words(facts);
      break;
    }
    case 4: {
      LaunchSettings settings;
      (void)first_host(text);
      (void)adopt({{"SLURM_PROCID", "1"},
                   {"SLURM_NTASKS", "4"},
                   {"SLURM_NNODES", "2"},
                   {"SLURM_TASKS_PER_NODE", text},
                   {"SLURM_JOB_NODELIST", text}},
                  settings);
      break;
    }
    case 5:
      (void)place_in_traceback(text);
      (void)kernel_line_about(text, 42);
      break;
    default: (void)check_nested("train.py", text, 2); break;
  }
  return 0;
}
