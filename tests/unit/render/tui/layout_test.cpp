#include "render/tui/layout.hpp"

#include <gtest/gtest.h>

#include "render/tui/monitor_screen.hpp"
#include "support/screen_text.hpp"

namespace lockstep {
namespace {

Monitored machine_of(int gpus, int processes_each = 1) {
  Monitored seen;
  seen.open = true;
  std::vector<int> indices;
  for (int i = 0; i < gpus; ++i) indices.push_back(i);
  seen.history = History(indices);
  for (int i = 0; i < gpus; ++i) {
    GpuNow gpu;
    gpu.info.index = i;
    seen.gpus.push_back(gpu);
    for (int j = 0; j < processes_each; ++j) {
      ProcessSample process;
      process.pid = 1000 + i * processes_each + j;
      process.gpus = {{i, 1U << 30U}};
      process.rank = i;
      process.world_size = gpus;
      process.launcher = "torchrun";
      process.parent_pid = 999;
      process.loader_workers = 4;
      process.command = {"python", "train.py"};
      seen.processes.push_back(process);
    }
  }
  return seen;
}

TEST(Layout, ShowsEightGpusAt80x24WithRanksAndFindings) {
  const Layout layout = layout_of(machine_of(8), {}, 80, 24);

  EXPECT_EQ(layout.gpus_shown, 8);
  EXPECT_GE(layout.lane_columns, 24);
  EXPECT_GE(layout.of(Panel::ranks).height, 2);
  EXPECT_GE(layout.of(Panel::findings).height, 2);
}

TEST(Layout, ShowsSixteenGpusAt120x40) {
  const Layout layout = layout_of(machine_of(16), {}, 120, 40);

  EXPECT_EQ(layout.gpus_shown, 16);
  EXPECT_GE(layout.lane_columns, 48);
  EXPECT_GE(layout.of(Panel::ranks).height, 5);
}

TEST(Layout, At40x12KeepsLanesAndOnePanel) {
  const Layout layout = layout_of(machine_of(8), {}, 40, 12);

  EXPECT_FALSE(layout.too_small());
  EXPECT_GE(layout.gpus_shown, 4);
  EXPECT_GE(layout.of(Panel::findings).height, 2);
  EXPECT_FALSE(layout.of(Panel::ranks).shown());
}

TEST(Layout, TheFocusedPanelIsTheOneThatStaysWhereRoomIsScarce) {
  MonitorState state;
  state.focus = Panel::ranks;

  EXPECT_TRUE(layout_of(machine_of(8), state, 40, 12).of(Panel::ranks).shown());
}

TEST(Layout, BandsNeverOverlapNorLeaveTheScreen) {
  for (const int gpus : {0, 1, 2, 8, 16, 64})
    for (int rows = kLeastRows; rows < 80; ++rows)
      for (const int columns : {40, 60, 72, 80, 99, 100, 120, 200, 400}) {
        const Layout layout = layout_of(machine_of(gpus), {}, columns, rows);
        int y = 0;
        for (const Band& band :
             {layout.title, layout.verdict, layout.axis, layout.lanes, layout.of(Panel::steps),
              layout.of(Panel::ranks), layout.of(Panel::findings)}) {
          EXPECT_EQ(band.y, y) << gpus << " GPUs at " << columns << "x" << rows;
          y += band.height;
        }
        EXPECT_LE(y, layout.footer.y) << gpus << " GPUs at " << columns << "x" << rows;
        EXPECT_GE(layout.lane_columns, 1);
      }
}

TEST(Layout, EverySizeIsDrawn) {
  const Monitored seen = machine_of(3, 5);
  for (int columns = 1; columns < 130; columns += 3)
    for (int rows = 1; rows < 50; rows += 2) {
      const Frame frame = draw_monitor(seen, {}, {columns, rows});
      ASSERT_EQ(frame.rows.size(), static_cast<std::size_t>(rows));
      for (const Line& line : frame.rows) EXPECT_LE(line.width(), std::max(columns, 1));
    }
}

TEST(Layout, ATerminalThatIsTooSmallIsTold) {
  const std::string text =
      testing::text_of(testing::painted(draw_monitor(machine_of(2), {}, {30, 8})));

  EXPECT_NE(text.find("lockstep needs 40x12"), std::string::npos) << text;
  EXPECT_NE(text.find("q quits"), std::string::npos) << text;
}

TEST(Layout, FewGpusGetTallLanes) {
  EXPECT_GT(layout_of(machine_of(2), {}, 120, 40).lane_rows, 2);
  EXPECT_EQ(layout_of(machine_of(16), {}, 80, 24).lane_rows, 1);
}

TEST(Layout, LoaderWorkersFoldIntoTheirRanksWhereThereIsNoRoom) {
  EXPECT_FALSE(layout_of(machine_of(2), {}, 120, 40).fold_workers);
  EXPECT_TRUE(layout_of(machine_of(8), {}, 80, 24).fold_workers);
}

TEST(Layout, AListScrollsNoFurtherThanItMust) {
  EXPECT_EQ(first_shown(0, 10, 4), 0);
  EXPECT_EQ(first_shown(3, 10, 4), 0);
  EXPECT_EQ(first_shown(4, 10, 4), 1);
  EXPECT_EQ(first_shown(9, 10, 4), 6);
  EXPECT_EQ(first_shown(2, 3, 10), 0);
}

}  // namespace
}  // namespace lockstep
