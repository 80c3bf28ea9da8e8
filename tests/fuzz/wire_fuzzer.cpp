// A ring with any content: the reader neither fails nor believes what cannot be.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "probes/wire/lockstep_wire.h"
#include "sources/probe/probe_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = [] {
    const auto path = std::filesystem::temp_directory_path() /
                      ("lockstep-wire-fuzzer-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  const auto file = folder / "wire-1.ring";
  lockstep_wire_header header{};
  header.magic = LOCKSTEP_WIRE_MAGIC;
  header.version = LOCKSTEP_WIRE_VERSION;
  header.header_bytes = sizeof header;
  header.record_bytes = sizeof(lockstep_record);
  header.slots = LOCKSTEP_WIRE_SLOTS;
  header.pid = 1;
  header.written = size > 0 ? data[0] * 37U : 0U;
  {
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  std::filesystem::resize_file(file, lockstep_wire_bytes(LOCKSTEP_WIRE_SLOTS));
  lockstep::ProbeReader reader(folder);
  reader.follow({1});
  for (const auto& record : reader.read_to_the_end())
    if (const auto* const step = std::get_if<lockstep::StepMark>(&record.content);
        step != nullptr && (!(step->duration_ms > 0) || step->rank < 0))
      std::abort();
  return 0;
}
