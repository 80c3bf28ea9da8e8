// Anything may be typed or clicked, in any pieces and at any size of the screen: keys are read,
// obeyed and drawn.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "render/tui/handle_input.hpp"
#include "render/tui/monitor_screen.hpp"
#include "render/tui/screen_painter.hpp"
#include "render/tui/terminal/input_parser.hpp"
#include "render/tui/terminal/screen_writer.hpp"

using namespace lockstep;

namespace {

// Three GPUs, two ranks with odd names, a finding, steps and an event.
Monitored known() {
  Monitored seen;
  seen.open = true;
  seen.history = History({0, 1, 2});
  for (int i = 0; i < 3; ++i) {
    GpuNow gpu;
    gpu.info.index = i;
    seen.gpus.push_back(gpu);
  }
  for (int t = 0; t < 100; ++t) {
    GpuTick tick;
    for (int i = 0; i < 3; ++i) {
      GpuSample sample;
      sample.index = i;
      sample.busy = (t + i) % 10 / 10.0;
      tick.push_back(sample);
    }
    seen.history.add(t * 100.0, tick);
  }
  for (int rank = 0; rank < 2; ++rank) {
    ProcessSample process;
    process.pid = 100 + rank;
    process.rank = rank;
    process.gpus = {{rank, std::nullopt}};
    process.command = {"python", "\x1b[2Jtrain\xFF.py", "\xE6\xBC\xA2\xE5\xAD\x97"};
    process.launcher = "torchrun";
    process.loader_workers = 2;
    seen.processes.push_back(process);
    seen.steps.push_back({5000, {rank, 1, 100, {}}});
  }
  Report report;
  report.verdict = Verdict{Pattern::taking_turns, 0.9, "GPU 0 and 1 take turns."};
  Finding finding;
  finding.gpus = {0, 1};
  finding.fixes = {
      {FixKind::command, FixSafety::unsafe, "launch it", {"torchrun", "train.py"}, std::nullopt}};
  report.findings = {finding};
  seen.report = std::make_shared<const Report>(std::move(report));
  seen.events.push_back({3000, {"xid", 1, "79"}});
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Monitored live = known();
  static const Monitored replay = [] {
    Monitored seen = known();
    seen.playback = Playback{};
    seen.playback->position_ms = 9000;
    return seen;
  }();
  if (size < 3) return 0;
  const Monitored& seen = data[0] % 2 == 0 ? live : replay;
  Size screen{1 + data[1], 1 + data[2] % 100};
  MonitorState state;
  InputParser parser;
  ScreenPainter painter;
  ScreenWriter writer;
  std::string_view bytes(reinterpret_cast<const char*>(data + 3),
                         std::min<std::size_t>(size - 3, 200));
  while (!bytes.empty()) {
    const std::size_t piece =
        std::min<std::size_t>(bytes.size(), 1 + static_cast<unsigned char>(bytes[0]) % 7);
    for (const Input& input : parser.take(bytes.substr(0, piece))) {
      const Layout layout = layout_of(seen, state, screen.columns, screen.rows);
      state = handle(std::move(state), input, {seen, layout, "run.jsonl"}).state;
      if (input == Input(key('#'))) screen = {screen.rows, screen.columns};
    }
    bytes.remove_prefix(piece);
  }
  parser.give_up_waiting();
  const Frame frame = draw_monitor(seen, state, screen);
  for (const Line& line : frame.rows)
    if (line.width() > std::max(screen.columns, 1)) __builtin_trap();  // wider than the screen
  const auto painted = painter.paint(frame);
  const std::string written = writer.update(painted.cells, painted.changed);
  // a command line reached the terminal
  if (written.find("\x1b[2Jtrain") != std::string::npos) __builtin_trap();
  return 0;
}
