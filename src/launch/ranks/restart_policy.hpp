// Whether and when a failed job is started again.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

class RestartPolicy {
 public:
  enum class Answer : std::uint8_t {
    restart,
    none_left,
    // the same error at the same place, twice, soon after the start: another attempt would do it
    // again
    same_again,
  };

  explicit RestartPolicy(int most) : most_(most) {}

  // `signature`: what tells one failure from another; empty where the place is not known.
  Answer after_failure(const std::string& signature, std::chrono::nanoseconds ran) {
    using namespace std::chrono_literals;
    const bool soon = ran < kSoon;
    const bool same = soon && !signature.empty() && signature == last_signature_;
    last_signature_ = soon ? signature : std::string();
    if (restarts_ >= most_) return Answer::none_left;
    if (same) return Answer::same_again;
    ++restarts_;
    return Answer::restart;
  }

  int restarts() const { return restarts_; }
  int left() const { return most_ - restarts_; }

  // None before the first restart, then 1, 2, 4 ... 30 s: what is broken for a moment gets that
  // moment.
  std::chrono::nanoseconds pause() const {
    using namespace std::chrono_literals;
    if (restarts_ <= 1) return 0s;
    return std::min<std::chrono::nanoseconds>(30s, 1s * (1LL << std::min(restarts_ - 2, 5)));
  }

 private:
  // A job that ran for long got somewhere: the same error hours later may well be a link that fails
  // now and then.
  static constexpr std::chrono::nanoseconds kSoon = std::chrono::minutes(10);
  const int most_;
  int restarts_ = 0;
  std::string last_signature_;
};

}  // namespace lockstep
