// What only a build with CUDA has. It lies in a library of its own (lib/lockstep/liblockstep_train_cuda.so), opened when a GPU
// is asked for: a run on the CPU never loads CUDA's gigabytes, and a build without CUDA has everything else.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

// A stretch of work recorded once and played again.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void play() = 0;
};

class CudaPart {
 public:
  virtual ~CudaPart() = default;
  virtual int device_count() const = 0;
  virtual void use_device(int index) const = 0;  // for the calling thread
  virtual std::string device_name(int index) const = 0;
  virtual DeviceMemory memory(int index) const = 0;
  virtual c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world, std::chrono::milliseconds timeout) const = 0;
  // Runs `work` three times to warm up, then records it.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) const = 0;
};

// Nothing: this build or this machine has no CUDA; why_no_cuda() says which.
const CudaPart* cuda_part();
const std::string& why_no_cuda();

}  // namespace lockstep
