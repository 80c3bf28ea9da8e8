// How the trainer gives up: a sentence and the next step. main() prints it and ends with the code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "lockstep/result.hpp"

namespace lockstep {

// libtorch throws; so does what stands on it. One catch, in main().
class TrainFailure : public std::runtime_error {
 public:
  TrainFailure(const std::string& what, std::string next)
      : std::runtime_error(what), next_(std::move(next)) {}
  explicit TrainFailure(Error error)
      : std::runtime_error(error.what), next_(std::move(error.next)), kind_(error.kind) {}
  // The same on every rank: one of them says it.
  static TrainFailure on_all_ranks(Error error) {
    TrainFailure failure(std::move(error));
    failure.on_all_ranks_ = true;
    return failure;
  }
  bool is_on_all_ranks() const { return on_all_ranks_; }
  const std::string& next() const { return next_; }
  ErrorKind kind() const { return kind_; }

 private:
  std::string next_;
  ErrorKind kind_ = ErrorKind::cannot_measure;
  bool on_all_ranks_ = false;
};

// The value, or the error thrown. What is wrong with the settings is wrong on all ranks.
template <class T>
T or_fail(Result<T> result) {
  if (!result && result.error().kind == ErrorKind::usage)
    throw TrainFailure::on_all_ranks(std::move(result).error());
  if (!result) throw TrainFailure(std::move(result).error());
  return std::move(*result);
}

}  // namespace lockstep
