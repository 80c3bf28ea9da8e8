#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "recording/writer.hpp"
#include "runs/child_command.hpp"
#include "runs/watch.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kFlushEvery = 1s;  // the most that a crash can cost
constexpr auto kProgressEvery = 500ms;

// Counts what goes into the file and keeps the promises about it.
class Recorder {
 public:
  Recorder(RecordingWriter& writer, const RunOptions& options)
      : writer_(writer),
        show_progress_(!options.quiet && ::isatty(STDERR_FILENO) == 1),
        flush_every_(options.output == "-" ? 0ns : std::chrono::nanoseconds(kFlushEvery)) {}

  Status take(const Record& record) {
    if (Status status = writer_.write(record); !status) return status;
    ticks_ += std::holds_alternative<GpuTick>(record.content) ? 1U : 0U;
    last_ms_ = record.t_ms;
    const auto now = monotonic_now();
    if (show_progress_ && now - last_progress_ >= kProgressEvery) {
      last_progress_ = now;
      fmt::print(
          stderr, "\rrecording {}, {} ticks",
          format_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(last_ms_ * 1e6))),
          ticks_);
      std::fflush(stderr);
    }
    if (now - last_flush_ < flush_every_) return Done{};
    last_flush_ = now;
    return writer_.flush();
  }

  void end_progress() const {
    if (show_progress_) fmt::print(stderr, "\r\x1b[K");
  }
  std::size_t ticks() const { return ticks_; }
  double last_ms() const { return last_ms_; }

 private:
  RecordingWriter& writer_;
  bool show_progress_;
  std::chrono::nanoseconds flush_every_;  // whoever reads a pipe wants each record as it comes
  std::size_t ticks_ = 0;
  double last_ms_ = 0;
  std::chrono::nanoseconds last_flush_ = monotonic_now();
  std::chrono::nanoseconds last_progress_{};
};

// From the first tick to the closed file.
Status record_into(RecordingWriter& writer, Source& source, const RunOptions& options,
                   ChildCommand& command) {
  Recorder recorder(writer, options);
  auto watched = watch(source, {options.duration, [&] { return command.ended(); }},
                       [&](const Record& entry) { return recorder.take(entry); });
  recorder.end_progress();
  if (!watched) return std::move(watched).error();
  if (watched->silence && !options.quiet)
    fmt::print(stderr,
               "lockstep: the driver stopped answering '{}' {} ago; the recording holds what came "
               "before\n",
               watched->silence->call, format_duration(watched->silence->since));
  if (const auto end = command.end()) {
    const Record note{recorder.last_ms(),
                      Event{"command_ended", std::nullopt, std::to_string(end->exit_code)}};
    if (Status status = writer.write(note); !status) return status;
  }
  if (Status status = writer.close(); !status) return status;
  if (options.quiet) return Done{};
  if (const auto note = source.repair_note()) fmt::print(stderr, "lockstep: {}\n", *note);
  const std::size_t gpus = source.machine().gpus.size();
  fmt::print(stderr, "lockstep: recorded {} of {} GPU{} in {} ticks to {}\n",
             format_duration(
                 std::chrono::nanoseconds(static_cast<std::int64_t>(recorder.last_ms() * 1e6))),
             gpus, gpus == 1 ? "" : "s", recorder.ticks(),
             options.output == "-" ? "standard output" : printable(options.output));
  return Done{};
}

Result<int> record(const RawOptions& raw, Redaction redaction) {
  auto options = TRY(check(raw));
  if (options.output.empty())
    return usage_error("no file to record to",
                       "name one: lockstep record -o run.jsonl (or run.jsonl.zst)");

  watch_for_interrupts();
  auto source = TRY(open_source(options.input, options.source_options()));
  auto writer = TRY(RecordingWriter::create(options.output, source->machine(), {redaction}));

  auto command = TRY(ChildCommand::start(
      options.command, options.output == "-" ? ChildOutput::to_stderr : ChildOutput::untouched));
  Status recorded = record_into(writer, *source, options, command);
  // Whatever became of the recording, the command is the user's: it is waited for, never ended.
  const int code = command.finish(ChildCommand::AtEnd::wait);
  if (!recorded) return std::move(recorded).error();
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  return code == 0 ? exit_code::kDone : exit_code::kCommandFailed;
}

}  // namespace

Run configure_record(CLI::App& app, RawOptions& raw) {
  auto redact = std::make_shared<bool>(false);
  add_input_options(app, raw);
  app.add_option("-o,--output", raw.output,
                 "the file to write; .zst compresses; - is standard output")
      ->type_name("FILE");
  app.add_flag("--redact", *redact, "leave out commands, users and host names altogether");
  add_common_options(app, raw);
  return [redact, &raw] {
    return record(raw, *redact ? Redaction::commands_and_host : Redaction::secrets);
  };
}

}  // namespace lockstep
