// SIGTERM of a run that keeps checkpoints. Schedulers send it minutes before they kill, launchers
// when a rank has failed: the run goes on to the next moment at which all ranks meet anyway, saves
// there, and then ends by the signal. Where that moment does not come, since another rank is gone,
// it ends without.
#pragma once

#include <chrono>

namespace lockstep {

class StopRequest {
 public:
  // Hears from now on, unless whoever started the process had the signal ignored.
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  static bool is_made();

  // How far apart ranks meet: a request waits for three times the longest, and for five seconds at
  // least.
  void expect_meeting_every(std::chrono::duration<double> time);

  // All ranks have met and know, or the run is at its end: however long saving takes now, it is
  // done to the end.
  void is_agreed();

  // The end that the signal would have brought at once.
  [[noreturn]] static void end();

 private:
  std::chrono::duration<double> longest_{};
};

}  // namespace lockstep
