// Opens virtual GPUs in this process and listens to them for a while.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "sources/open_input.hpp"

namespace lockstep::testing {

// All records that arrive until `enough` says so of them, within `limit`, which only a failure
// reaches. A live source goes on afterwards.
template <class Enough>
std::vector<Record> listen_until(Source& source, std::chrono::milliseconds limit, Enough enough) {
  std::vector<Record> records;
  const auto until = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < until && !enough(records)) {
    auto next = source.next(std::chrono::milliseconds(20));
    if (!next || std::holds_alternative<EndOfInput>(*next)) break;
    if (auto* record = std::get_if<Record>(&*next)) records.push_back(std::move(*record));
  }
  return records;
}

// All records that arrive within `length`.
inline std::vector<Record> listen(Source& source, std::chrono::milliseconds length) {
  return listen_until(source, length, [](const std::vector<Record>&) { return false; });
}

// What is left after finish().
inline std::vector<Record> rest_of(Source& source) {
  source.finish();
  return listen(source, std::chrono::seconds(2));
}

template <class Kind>
std::vector<Kind> only(const std::vector<Record>& records) {
  std::vector<Kind> kinds;
  for (const Record& record : records)
    if (const auto* kind = std::get_if<Kind>(&record.content)) kinds.push_back(*kind);
  return kinds;
}

// The newest sample of a GPU.
inline GpuSample last_sample(const std::vector<Record>& records, int gpu) {
  GpuSample found;
  for (const GpuTick& tick : only<GpuTick>(records))
    for (const GpuSample& sample : tick)
      if (sample.index == gpu && sample.busy.asked()) found = sample;
  return found;
}

}  // namespace lockstep::testing
