#include "model/board_power.hpp"

#include <array>

namespace lockstep {
namespace {

struct Board {
  std::string_view word;  // of the driver's name
  double watts;
};

// The first that fits counts: a longer name stands above one that it holds.
constexpr std::array kBoards = {Board{"GB200", 1200},
                                Board{"B300", 1100},
                                Board{"B200", 1000},
                                Board{"GH200", 700},
                                Board{"H200 NVL", 600},
                                Board{"H200", 700},
                                Board{"H20", 500},
                                Board{"H100 PCIe", 350},
                                Board{"H100 NVL", 400},
                                Board{"H100", 700},
                                Board{"H800 PCIe", 350},
                                Board{"H800", 700},
                                Board{"A100-SXM", 400},
                                Board{"A100 80GB PCIe", 300},
                                Board{"A100-PCIE-80GB", 300},
                                Board{"A100-PCIE", 250},
                                Board{"A800-SXM", 400},
                                Board{"A800", 300},
                                Board{"L40S", 350},
                                Board{"L40", 300},
                                Board{"L20", 275},
                                Board{"L4", 72},
                                Board{"A40", 300},
                                Board{"A30", 165},
                                Board{"A10G", 300},
                                Board{"A10", 150},
                                Board{"A16", 250},
                                Board{"RTX A6000", 300},
                                Board{"RTX A5000", 230},
                                Board{"RTX A4000", 140},
                                Board{"RTX 6000 Ada", 300},
                                Board{"RTX 5000 Ada", 250},
                                Board{"RTX 5090", 575},
                                Board{"RTX 5080", 360},
                                Board{"RTX 4090", 450},
                                Board{"RTX 4080", 320},
                                Board{"RTX 4070 Ti", 285},
                                Board{"RTX 3090 Ti", 450},
                                Board{"RTX 3090", 350},
                                Board{"RTX 3080 Ti", 350},
                                Board{"RTX 3080", 320},
                                Board{"RTX 2080 Ti", 250},
                                Board{"Quadro RTX 8000", 260},
                                Board{"Quadro RTX 6000", 260},
                                Board{"TITAN RTX", 280},
                                Board{"TITAN V", 250},
                                Board{"V100-SXM", 300},
                                Board{"V100-PCIE", 250},
                                Board{"V100S-PCIE", 250},
                                Board{"T4", 70},
                                Board{"P100-SXM2", 300},
                                Board{"P100-PCIE", 250},
                                Board{"P40", 250},
                                Board{"GTX 1080 Ti", 250}};

}  // namespace

std::optional<double> board_power_mw(std::string_view driver_name) {
  if (driver_name.find("Laptop") != std::string_view::npos ||
      driver_name.find("Max-Q") != std::string_view::npos)
    return std::nullopt;  // each laptop has its own
  for (const Board& board : kBoards) {
    const auto at = driver_name.find(board.word);
    if (at == std::string_view::npos) continue;
    // "A10" is not "A100", "L4" not "L40": a number ends there
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const std::size_t end = at + board.word.size();
    const bool goes_on =
        is_digit(board.word.back()) && end < driver_name.size() && is_digit(driver_name[end]);
    const bool begins = at == 0 || driver_name[at - 1] == ' ' || driver_name[at - 1] == '-';
    if (begins && !goes_on) return board.watts * 1000;
  }
  return std::nullopt;
}

}  // namespace lockstep
