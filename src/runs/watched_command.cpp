#include "runs/watched_command.hpp"

#include <cstdio>
#include <utility>

#include "base/interrupt.hpp"
#include "runs/exit_code.hpp"
#include "runs/recorded_source.hpp"
#include "runs/renderer_for.hpp"
#include "runs/with_ras.hpp"

namespace lockstep {
namespace {

std::optional<std::vector<std::string>> environment_of(
    const ProbeSession& session, const std::map<std::string, std::string>& more) {
  if (more.empty()) return session.environment();
  Variables variables = own_variables();
  if (session.environment()) {
    variables.clear();
    for (const std::string& entry : *session.environment()) {
      const auto equals = entry.find('=');
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : more) variables[name] = value;
  return as_entries(variables);
}

}  // namespace

WatchedCommand::WatchedCommand(ProbeSession session, ChildCommand child)
    : session_(std::move(session)), child_(std::move(child)) {}
WatchedCommand::WatchedCommand(WatchedCommand&&) noexcept = default;
WatchedCommand::~WatchedCommand() = default;

Result<WatchedCommand> WatchedCommand::start(const WatchedCommandOptions& options,
                                             std::unique_ptr<Source> gpus) {
  ProbeSession session = TRY(ProbeSession::start(options.probes));
  const ProbeSource* heard_by = nullptr;
  std::unique_ptr<Source> source = std::move(gpus);
  if (!source || session.on()) {
    auto rings =
        std::make_unique<ProbeSource>(session.folder(), std::move(source), options.device_work);
    heard_by = rings.get();
    source = std::move(rings);
  }
  if (options.probes.ras) source = with_ras(std::move(source));
  std::unique_ptr<RecordingWriter> recording;
  RecordedSource* recorded = nullptr;
  if (!options.record_to.empty()) {
    recording = std::make_unique<RecordingWriter>(
        TRY(RecordingWriter::create(options.record_to, source->machine())));
    auto tee = std::make_unique<RecordedSource>(std::move(source), *recording);
    recorded = tee.get();
    source = std::move(tee);
  }
  // Last, so that nothing of it is missed.
  ChildCommand child = TRY(ChildCommand::start(options.command, options.output,
                                               environment_of(session, options.variables)));
  WatchedCommand watched(std::move(session), std::move(child));
  watched.recording_ = std::move(recording);
  watched.source_ = std::move(source);
  watched.rings_ = heard_by;
  watched.recorded_ = recorded;
  return watched;
}

Result<Timeline> WatchedCommand::observe(ObservationOptions how) {
  if (child_.started()) how.pid = child_.pid();
  how.stop = [this, given = std::move(how.stop)] { return child_.ended() || (given && given()); };
  auto timeline = lockstep::observe(*source_, how);
  session_.stop_measuring();
  return timeline;
}

Status WatchedCommand::close_recording() {
  return recorded_ != nullptr ? recorded_->close() : Status(Done{});
}

void WatchedCommand::let_go() {
  rings_ = nullptr;
  recorded_ = nullptr;
  source_.reset();
}

Result<int> put_and_wait(const RunOptions& options, const Report& report, ChildCommand& child,
                         const std::string& words_while_waiting) {
  if (Status put = put_result(options, renderer_for(options)->render(report)); !put) {
    child.finish(ChildCommand::AtEnd::wait);
    return std::move(put).error();
  }
  std::fflush(stdout);
  if (child.running()) tell(options, words_while_waiting);
  const int code = child.finish(ChildCommand::AtEnd::wait);
  if (interrupted_by() != 0) return exit_code::kInterrupted;
  if (code != 0) return exit_code::kCommandFailed;
  return report.findings.empty() ? exit_code::kDone : exit_code::kFindings;
}

}  // namespace lockstep
