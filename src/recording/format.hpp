// The names and the version of the recording format, shared by its writer and its reader.
// docs/formats/recording.md is the page for people.
#pragma once

#include <array>
#include <string_view>

namespace lockstep::recording_format {

inline constexpr int kVersion = 1;

inline constexpr std::string_view kMagicKey = "lockstep_recording";
// A zstd frame's first four bytes (RFC 8878): how a compressed recording is known, whatever its
// name.
inline constexpr std::array<unsigned char, 4> kZstdMagic = {0x28, 0xB5, 0x2F, 0xFD};
inline constexpr std::string_view kCompressedSuffix = ".zst";

// A line longer than this is not a recording's: 64 GPUs with two seconds of 20 ms power samples
// take 64 KiB.
inline constexpr std::size_t kLongestLine = 16U << 20U;

}  // namespace lockstep::recording_format
