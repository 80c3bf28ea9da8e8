// Streams a recording: prints the number of GPU samples, the seconds it took and the peak memory.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "recording/reader.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: read_recording FILE\n"), 2;
  const auto begin = std::chrono::steady_clock::now();
  auto reader = lockstep::RecordingReader::open(argv[1]);
  if (!reader) return std::fprintf(stderr, "%s\n", reader.error().what.c_str()), 3;
  std::size_t samples = 0;
  while (const auto record = reader->next())
    if (const auto* tick = std::get_if<lockstep::GpuTick>(&record->content))
      samples += tick->size();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("%zu %.3f %.1f\n", samples, seconds, static_cast<double>(usage.ru_maxrss) / 1024);
}
