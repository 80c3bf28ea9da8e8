// Progress bars, as tqdm writes them: "  12%|█▎ | 2/16 [01:23<08:10, 35.06s/it]".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sources/log/step_line.hpp"

namespace lockstep {

// Bars that are no steps of a training, by their first word: "Loading checkpoint shards".
bool is_another_bar(std::string_view line);

// Bars of a training are collected line by line.
class ProgressBars {
 public:
  // `above`: the line before it, which may say what a bar without words of its own counts.
  void add(std::size_t line, std::string_view above, std::string_view text);
  std::size_t size() const { return bars_.size(); }
  // Steps of the bar that took most of the time, by its clock where that has run long enough, else
  // by the rates that it prints. A single bar with steps enough behind it is worth one.
  std::vector<StepLine> steps() const;

 private:
  // How far a bar is, and since when it runs.
  struct Place {
    double step = 0;
    double all = 0;  // 0: not known
    double seconds = 0;
  };
  struct Bar {
    StepLine by_rate;
    std::optional<Place> place;
  };
  static std::optional<Place> place_of(std::string_view bar);
  bool is_drawn_again(const Bar& next) const;
  std::vector<const Bar*> of_the_training() const;

  std::vector<Bar> bars_;
};

}  // namespace lockstep
