// Any bytes as a recording: no crash, and what was read can be written and read again.
#include <cstdlib>
#include <string>

#include "recording/reader.hpp"
#include "recording/writer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto reader = lockstep::RecordingReader::over(
      std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!reader) return 0;
  std::string again = lockstep::header_line(reader->machine());
  int records = 0;
  while (auto record = reader->next()) {
    again += lockstep::record_line(*record);
    ++records;
  }
  auto second = lockstep::RecordingReader::over(again, "again");
  if (!second) std::abort();
  int same = 0;
  while (second->next()) ++same;
  if (same != records || second->losses().any()) std::abort();
  return 0;
}
