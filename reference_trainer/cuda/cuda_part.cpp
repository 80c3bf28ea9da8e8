#include "reference_trainer/cuda/cuda_part.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <dlfcn.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#ifdef LOCKSTEP_CUDA_KERNELS
#include "reference_trainer/cuda/fused_adamw.hpp"
#include "reference_trainer/cuda/fused_gpt.hpp"
#endif

namespace lockstep {
namespace {

// A CUDA graph: recorded on a stream of its own, after a few runs there that let libraries allocate
// what they keep.
class GraphedWork : public RecordedWork {
 public:
  explicit GraphedWork(const std::function<void()>& work) : stream_(at::cuda::getStreamFromPool()) {
    at::cuda::CUDAEvent ready;  // what was asked of the current stream comes first
    ready.record(at::cuda::getCurrentCUDAStream());
    ready.block(stream_);
    at::cuda::CUDAStreamGuard guard(stream_);
    for (int warm_up = 0; warm_up < 3; ++warm_up) work();
    at::cuda::stream_synchronize(stream_);
    // loader threads may allocate page-locked memory meanwhile
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    work();
    graph_.capture_end();
  }
  void play() override { graph_.replay(); }

 private:
  at::cuda::CUDAStream stream_;
  at::cuda::CUDAGraph graph_;
};

class RealCuda : public CudaPart {
 public:
  int device_count() const override { return c10::cuda::device_count(); }
  void use_device(int index) const override {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  }
  std::string device_name(int index) const override {
    return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->name;
  }
  std::int64_t total_memory(int index) const override {
    return static_cast<std::int64_t>(
        at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->totalGlobalMem);
  }
  DeviceMemory memory(int index) const override {
    const auto stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
    const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {stats.allocated_bytes[all].current, stats.reserved_bytes[all].current,
            stats.allocated_bytes[all].peak};
  }
  int nccl_version() const override {
    // torch::cuda::nccl::version() is the one that torch was compiled with, not the one loaded.
    using GetVersion = int (*)(int*);
    const auto ask = reinterpret_cast<GetVersion>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
    int version = 0;
    return ask != nullptr && ask(&version) == 0 ? version : 0;
  }
  c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                              int rank, int world,
                                              std::chrono::milliseconds timeout) const override {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world, options);
  }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) const override {
    return std::make_unique<GraphedWork>(work);
  }
#ifdef LOCKSTEP_CUDA_KERNELS
  std::unique_ptr<FusedPass> make_fused_gpt(const GptWeights& weights,
                                            const ModelShape& shape) const override {
    return lockstep::make_fused_gpt(weights, shape);
  }
  std::unique_ptr<FusedUpdate> make_fused_adamw(at::Device device) const override {
    return lockstep::make_fused_adamw(device);
  }
#else
  std::unique_ptr<FusedPass> make_fused_gpt(const GptWeights&, const ModelShape&) const override {
    return nullptr;
  }
  std::unique_ptr<FusedUpdate> make_fused_adamw(at::Device) const override { return nullptr; }
#endif
};

}  // namespace
}  // namespace lockstep

extern "C" const lockstep::CudaPart* lockstep_cuda_part() {
  static const lockstep::RealCuda part;
  return &part;
}
