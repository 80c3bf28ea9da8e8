// What a step gives back: its value, or an error that names the thing and the next step.
//
// Errors travel as values inside lockstep; the one place that turns them into words and an exit
// code is the command line. Both texts are required: an error without a next step leaves the user
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace lockstep {

// Which exit code an error ends with (design: the same everywhere).
enum class ErrorKind : std::uint8_t {
  cannot_measure,  // 3: no NVML, no GPU, unreadable input
  usage,           // 2: what was asked for makes no sense
};

struct Error {
  std::string what;  // lower case, the name of the thing, the value seen
  std::string next;  // what to type or change
  ErrorKind kind = ErrorKind::cannot_measure;
};

inline Error usage_error(std::string what, std::string next) {
  return {std::move(what), std::move(next), ErrorKind::usage};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : content_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const { return content_.index() == 0; }
  T& operator*() & { return std::get<0>(content_); }
  const T& operator*() const& { return std::get<0>(content_); }
  T&& operator*() && { return std::get<0>(std::move(content_)); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const Error& error() const& { return std::get<1>(content_); }
  Error&& error() && { return std::get<1>(std::move(content_)); }
  T take() && { return std::get<0>(std::move(content_)); }

 private:
  std::variant<T, Error> content_;
};

struct Done {};
using Status = Result<Done>;

// The value of a Result, or an early return of its error: `auto file = TRY(open(path));`.
// A statement expression, which g++ and clang both have: no C++20 expression can return.
#define TRY(...)                                           \
  __extension__({                                          \
    auto try_result = (__VA_ARGS__);                       \
    if (!try_result) return std::move(try_result).error(); \
    std::move(try_result).take();                          \
  })

}  // namespace lockstep
