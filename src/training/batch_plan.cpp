#include "training/batch_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

Error does_not_divide(std::string_view what, std::int64_t wanted, std::int64_t pass,
                      const std::string& pass_words) {
  const std::int64_t below = wanted / pass * pass;
  const std::string nearest =
      below > 0 ? fmt::format("{} or {}", below, below + pass) : fmt::format("{}", pass);
  return usage_error(fmt::format("{} {} is not a whole number of passes: one pass takes {} ({})",
                                 what, wanted, pass, pass_words),
                     fmt::format("use {} {}, or another --batch-size", what, nearest));
}

}  // namespace

Result<BatchPlan> plan_batch(const TrainSettings& settings, const ModelShape& shape,
                             std::int64_t replicas) {
  BatchPlan plan{.batch_size = settings.batch_size,
                 .accumulation = settings.accumulation,
                 .replicas = replicas};
  const std::int64_t samples_per_pass = plan.batch_size * replicas;
  const std::int64_t tokens_per_pass = samples_per_pass * shape.sequence_length;
  const std::string pass_words = fmt::format("batch {} x {} {}", plan.batch_size, replicas,
                                             replicas == 1 ? "replica" : "replicas");
  if (settings.global_batch > 0 && settings.tokens_per_update > 0)
    return usage_error("--global-batch and --tokens-per-update at once", "give one of them");
  if (settings.global_batch > 0) {
    if (settings.global_batch % samples_per_pass != 0)
      return does_not_divide("--global-batch", settings.global_batch, samples_per_pass, pass_words);
    plan.accumulation = settings.global_batch / samples_per_pass;
  } else if (settings.tokens_per_update > 0) {
    if (settings.tokens_per_update % tokens_per_pass != 0)
      return does_not_divide("--tokens-per-update", settings.tokens_per_update, tokens_per_pass,
                             fmt::format("{} x {} tokens", pass_words, shape.sequence_length));
    plan.accumulation = settings.tokens_per_update / tokens_per_pass;
  }
  plan.samples_per_update = samples_per_pass * plan.accumulation;
  plan.tokens_per_update = tokens_per_pass * plan.accumulation;
  return plan;
}

}  // namespace lockstep
