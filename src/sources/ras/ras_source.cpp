#include "sources/ras/ras_source.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"

namespace lockstep {
namespace {

bool has_nccl(const ProcessSample& process) {
  return process.libraries &&
         std::ranges::find(*process.libraries, "nccl") != process.libraries->end();
}

bool tells_of_nccl(const Record& record) {
  if (const auto* processes = std::get_if<ProcessTick>(&record.content))
    return std::ranges::any_of(*processes, has_nccl);
  if (const auto* fact = std::get_if<ProbeFact>(&record.content)) return fact->name == "nccl";
  return false;
}

bool names_several_ranks(const Record& record) {
  const auto* const processes = std::get_if<ProcessTick>(&record.content);
  return processes != nullptr && std::ranges::any_of(*processes, [](const ProcessSample& process) {
           return has_nccl(process) && process.world_size.value_or(1) > 1;
         });
}

}  // namespace

RasSource::RasSource(std::unique_ptr<Source> inner, RasAddress address)
    : inner_(std::move(inner)), address_(std::move(address)) {}
RasSource::~RasSource() = default;

Result<NextRecord> RasSource::next(std::chrono::milliseconds wait) {
  if (watch_)
    if (auto census = watch_->take())
      return NextRecord(
          Record{to_ms(unix_now()) - static_cast<double>(machine().started_unix_ns) / 1e6,
                 std::move(*census)});
  auto next = inner_->next(wait);
  const Record* const record = next ? std::get_if<Record>(&*next) : nullptr;
  if (record == nullptr) return next;
  if (!watch_ && tells_of_nccl(*record)) watch_ = std::make_unique<RasWatch>(address_);
  several_ranks_ = several_ranks_ || names_several_ranks(*record);
  return next;
}

std::vector<NotMeasured> RasSource::not_measured() const {
  std::vector<NotMeasured> list = inner_->not_measured();
  if (watch_ && several_ranks_ && !watch_->answered())
    list.push_back({"ras",
                    "NCCL is loaded, and no communicator of it answered (2.28.7 and later do, "
                    "unless NCCL_RAS_ENABLE=0); that proves nothing"});
  return list;
}

}  // namespace lockstep
