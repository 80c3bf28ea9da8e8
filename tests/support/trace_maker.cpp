#include "support/trace_maker.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cstdlib>

#include "sources/trace/rank_matching.hpp"
#include "sources/trace/trace_reader.hpp"

namespace lockstep::testing {

TraceMaker& TraceMaker::rank(int rank, int world_size) {
  facts_ += fmt::format(R"("distributedInfo":{{"backend":"nccl","rank":{},"world_size":{}}},)",
                        rank, world_size);
  return *this;
}

TraceMaker& TraceMaker::device(int major, const std::string& name) {
  facts_ += fmt::format(
      R"("deviceProperties":[{{"id":0,"name":"{}","totalGlobalMem":85899345920,"computeMajor":{},"computeMinor":0}}],)",
      name, major);
  return *this;
}

void TraceMaker::add(const std::string& category, const std::string& name, const std::string& place,
                     double start, double duration, const std::string& arguments) {
  events_.push_back(fmt::format(
      R"({{"ph":"X","cat":"{}","name":"{}",{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})", category,
      name, place, start, duration, arguments));
}

TraceMaker& TraceMaker::op(const std::string& name, double start, double duration, int thread) {
  add("cpu_op", name, fmt::format(R"("pid":100,"tid":{})", thread), start, duration, "");
  return *this;
}

TraceMaker& TraceMaker::annotation(const std::string& name, double start, double duration) {
  add("user_annotation", name, R"("pid":100,"tid":1)", start, duration, "");
  return *this;
}

TraceMaker& TraceMaker::python(const std::string& name, double start, double duration) {
  add("python_function", name, R"("pid":100,"tid":1)", start, duration, "");
  return *this;
}

TraceMaker& TraceMaker::call(const std::string& name, double start, double duration, int thread) {
  add("cuda_runtime", name, fmt::format(R"("pid":100,"tid":{})", thread), start, duration,
      fmt::format(R"("correlation":{})", ++correlation_));
  return *this;
}

TraceMaker& TraceMaker::kernel(const std::string& name, double launched, double start,
                               double duration, int stream, int device, int thread) {
  call("cudaLaunchKernel", launched, 5, thread);
  add("kernel", name, fmt::format(R"("pid":{},"tid":{})", device, stream), start, duration,
      fmt::format(R"("device":{},"stream":{},"correlation":{})", device, stream, correlation_));
  return *this;
}

TraceMaker& TraceMaker::copy(const std::string& name, double launched, double start,
                             double duration, std::uint64_t bytes, double call_lasts) {
  call("cudaMemcpyAsync", launched, call_lasts);
  add("gpu_memcpy", name, R"("pid":0,"tid":7)", start, duration,
      fmt::format(R"("device":0,"stream":7,"correlation":{},"bytes":{})", correlation_, bytes));
  return *this;
}

TraceMaker& TraceMaker::event(const std::string& json) {
  events_.push_back(json);
  return *this;
}

std::string TraceMaker::text() const {
  return fmt::format("{{{}\"traceEvents\":[\n{}\n],\"traceName\":\"made\"}}", facts_,
                     fmt::join(events_, ",\n"));
}

RankTrace TraceMaker::trace() const {
  const auto bytes = TraceBytes::over(text(), 1U << 20U);
  auto trace = read_trace(*bytes, "made.json", {});
  if (!trace) std::abort();
  trace->rank = trace->told_rank.value_or(0);
  return std::move(*trace);
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string result(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

}  // namespace lockstep::testing
