// Checkpoints: safetensors files (any safetensors reader opens them), written beside training, whole or not at all.
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

// What a run resumes from: a file, or "auto", the newest of the folder; nothing: there is none. One that cannot be used is an
// error which offers the one before; after a restart by the launcher the one before is taken, and `words` says so.
struct ResumePoint {
  std::filesystem::path file;
  Checkpoint content;
  std::string words;
};
enum class AfterDamage { refuse, take_the_one_before };
Result<std::optional<ResumePoint>> find_resume_point(const std::string& resume, const std::filesystem::path& folder, AfterDamage after_damage);

// Writes in the background: save() copies the tensors, which is all that a step pays, and waits only for a save before it.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path folder, std::int64_t keep) : folder_(std::move(folder)), keep_(keep) {}
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // An error is that of the save before.
  Status save(std::int64_t step, Checkpoint checkpoint);
  Status finish();

 private:
  const std::filesystem::path folder_;
  const std::int64_t keep_;  // 0: all
  std::future<Status> under_way_;
};

}  // namespace lockstep
