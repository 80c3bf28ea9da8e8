// Checkpoints: safetensors files (any safetensors reader opens them), written beside training,
// whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

struct NamedTensor {
  std::string name;
  Tensor value;
};

// A file's content. Words are the run's: step, position, shape, scale.
struct Checkpoint {
  std::map<std::string, std::string> words;
  std::vector<NamedTensor> tensors;
};

// Refuses what is cut short, damaged or something else, with a sentence.
Result<Checkpoint> read_checkpoint(const std::filesystem::path& file);
// A new file, by way of a temporary one: flushed, renamed, and the folder flushed.
Status write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);

// The checkpoints of a folder, oldest first.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);

// What a run resumes from: a file, or "auto", the newest of the folder; nothing: there is none. One
// that cannot be used is an error which offers the one before. After a restart by the launcher
// (attempt 1 and on) it is the newest that this run wrote, whatever it began with, and the one
// before is taken where that is damaged; `words` says so.
struct ResumePoint {
  std::filesystem::path file;
  Checkpoint content;
  std::string words;
};
Result<std::optional<ResumePoint>> find_resume_point(const std::string& resume,
                                                     const std::filesystem::path& folder,
                                                     int attempt);

// Renames the checkpoints of later updates to *.aside: those of another run, or damaged ones. Else
// the next resume, and the count of those to keep, would take them for this run's.
void set_aside_later_ones(const std::filesystem::path& folder, std::int64_t update);

// Writes in the background: save() copies the tensors, which is all that a step pays, and waits
// only for a save before it.
class CheckpointWriter {
 public:
  // Makes the folder and writes into it once: a run should not find out at its end that nothing can
  // be saved.
  static Status try_folder(const std::filesystem::path& folder);

  CheckpointWriter(std::filesystem::path folder, std::int64_t keep)
      : folder_(std::move(folder)), keep_(keep) {}
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // An error is that of the save before.
  Status save(std::int64_t step, Checkpoint checkpoint);
  Status finish();

 private:
  void remove_before(const std::filesystem::path& newest) const;

  const std::filesystem::path folder_;
  const std::int64_t keep_;  // 0: all
  std::future<Status> under_way_;
};

}  // namespace lockstep
