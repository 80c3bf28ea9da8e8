#include "render/text/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "render/text/paint.hpp"
#include "render/text/table.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kWidth = 100;

std::string count(double value) {
  if (value >= 1e12) return fmt::format("{:.3g}T", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.3g}B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string milliseconds(double value) {
  return value >= 1000  ? fmt::format("{:.2f} s", value / 1e3)
         : value >= 100 ? fmt::format("{:.0f} ms", value)
                        : fmt::format("{:.1f} ms", value);
}
std::string whole_percent(double share) { return fmt::format("{:.0f} %", 100 * share); }
std::string plural(std::int64_t number, const char* word) {
  return fmt::format("{} {}{}", number, word,
                     number == 1                                             ? ""
                     : word[std::char_traits<char>::length(word) - 1] == 's' ? "es"
                                                                             : "s");
}
std::string batch_words(const PlannedWay& way) {
  return fmt::format("{}/{}", way.micro_batch, way.accumulation);
}

std::string head(const Plan& plan, const Painter& paint) {
  const PlannedHardware& hardware = plan.hardware;
  const PlannedModel& model = plan.model;
  std::string text = paint.bold((plan.choice.fits ? "plan: " : "nothing fits; the nearest: ") +
                                plan.choice.words) +
                     (plan.choice.activation_checkpointing ? ", blocks computed twice" : "") + "\n";
  std::string machine = fmt::format("{} x {}", hardware.gpus_a_node, hardware.gpu);
  if (hardware.nodes > 1) machine = fmt::format("{} nodes of {}", hardware.nodes, machine);
  text += fmt::format(
      "{}; {} with {} parameters{}, {} tokens a sample, {}\n", machine, model.name,
      count(model.parameters),
      model.method == "full" && model.frozen.empty() && model.trained_parameters == model.parameters
          ? ""
          : fmt::format(" ({}: {} trained)", model.method, count(model.trained_parameters)),
      model.sequence_length, model.precision);
  if (!model.frozen.empty()) text += fmt::format("beside frozen {}\n", join(model.frozen, ", "));
  text += wrapped(plan.reason, 0, kWidth);
  if (!hardware.notes.empty())
    text += paint.faint(wrapped("taken for granted: " + join(hardware.notes, "; "), 0, kWidth));
  return text + "\n";
}

std::string numbers_of_plan(const Plan& plan, const Painter& paint) {
  const PlannedWay& way = plan.choice;
  std::string text;
  text += fmt::format(
      "  batch    {} a {} x {} x {} = {} samples, {} tokens an update\n", way.micro_batch,
      way.strategy == "hybrid-split" || way.strategy == "model-split" ? "copy" : "GPU",
      plural(way.accumulation, "pass"), plural(way.replicas, way.replicas == 1 ? "copy" : "rank"),
      way.global_batch, count(static_cast<double>(way.tokens_per_update)));
  const std::string memory = fmt::format("{} of {} on each GPU", format_bytes(way.memory_bytes),
                                         format_bytes(way.memory_limit_bytes));
  text += fmt::format("  memory   {} ({} %)\n", way.fits ? paint.good(memory) : paint.bad(memory),
                      fmt::format("± {:.0f}", 100 * plan.memory_doubt));
  std::string parts;
  double small = 0;
  for (const PlannedPart& part : way.memory)
    if (part.bytes >= 0.005 * way.memory_bytes)
      parts +=
          (parts.empty() ? "" : ", ") + fmt::format("{} {}", part.name, format_bytes(part.bytes));
    else
      small += part.bytes;
  if (small > 0) parts += fmt::format(", the rest {}", format_bytes(small));
  text += wrapped(parts, 11, kWidth);
  text += fmt::format("  step     {} (± {:.0f} %): compute {}, optimizer {}",
                      milliseconds(way.step_ms), 100 * plan.step_doubt,
                      milliseconds(way.compute_ms), milliseconds(way.optimizer_ms));
  if (way.strategy == "offload")
    text += fmt::format(", over PCIe and on the host {} ({})", milliseconds(way.exposed_ms),
                        whole_percent(way.communication_share));
  else if (way.gpus > 1)
    text += fmt::format(", waiting for each other {} ({})", milliseconds(way.exposed_ms),
                        whole_percent(way.communication_share));
  text += "\n";
  if (way.communication_ms > 0 && way.strategy != "offload")
    text += fmt::format("           communication {}, of which {} beside compute\n",
                        milliseconds(way.communication_ms),
                        milliseconds(std::max(0.0, way.communication_ms - way.exposed_ms)));
  if (way.host_bound)
    text +=
        "           the host starts kernels slower than the GPU does them: a larger batch or "
        "torch.compile\n";
  text +=
      fmt::format("  speed    {} tokens/s, {} samples/s, {} of the GPUs' peak\n",
                  count(way.tokens_s), count(way.samples_s), whole_percent(way.model_flops_share));
  return text + "\n";
}

std::string scaling_of(const Plan& plan) {
  if (plan.scaling.size() < 2 && !(plan.scaling.size() == 1 && plan.scaling.front().days))
    return "";
  std::vector<std::pair<std::string, Align>> columns = {
      {"  GPUs", Align::right},   {"strategy", Align::left}, {"batch", Align::right},
      {"global", Align::right},   {"memory", Align::right},  {"step", Align::right},
      {"tokens/s", Align::right}, {"speedup", Align::right}, {"efficiency", Align::right}};
  const bool days = plan.scaling.front().days.has_value();
  if (days) {
    columns.emplace_back("days", Align::right);
    columns.emplace_back("GPU-hours", Align::right);
  }
  Table table(columns);
  for (const PlannedScale& scale : plan.scaling) {
    const PlannedWay& way = scale.way;
    std::vector<std::string> cells = {fmt::format("{}", way.gpus),
                                      way.strategy + (way.activation_checkpointing ? " +ckpt" : ""),
                                      batch_words(way),
                                      std::to_string(way.global_batch),
                                      format_bytes(way.memory_bytes),
                                      milliseconds(way.step_ms),
                                      count(way.tokens_s),
                                      fmt::format("{:.2f}x", scale.speedup),
                                      whole_percent(scale.efficiency)};
    if (days) {
      cells.push_back(fmt::format("{:.1f}", *scale.days));
      cells.push_back(count(*scale.gpu_hours));
    }
    table.add(cells);
  }
  const bool first_is_measure = plan.scaling.front().way.tokens_s == plan.base_tokens_s;
  return table.text(std::nullopt) +
         (first_is_measure ? ""
                           : fmt::format("  1.00x: one GPU with memory enough, {} tokens/s\n",
                                         count(plan.base_tokens_s))) +
         "\n";
}

std::string ways_text(const std::vector<PlannedWay>& ways, const PlannedWay& choice) {
  Table table({{"  strategy", Align::left},
               {"batch", Align::right},
               {"memory", Align::right},
               {"step", Align::right},
               {"tokens/s", Align::right},
               {"against the plan", Align::right},
               {"", Align::left}});
  for (const PlannedWay& way : ways)
    table.add({"  " + way.strategy + (way.activation_checkpointing ? " +ckpt" : ""),
               batch_words(way), format_bytes(way.memory_bytes), milliseconds(way.step_ms),
               count(way.tokens_s), fmt::format("{:.2f}x", way.tokens_s / choice.tokens_s),
               way.fits ? "" : "does not fit"});
  return table.text(std::nullopt);
}

std::string ladder_text(const Plan& plan) {
  std::string text =
      "when memory is short after all (batch a GPU / passes; more passes alone free nothing):\n";
  for (const LadderRung& rung : plan.ladder) {
    const PlannedWay& way = rung.way;
    text += fmt::format(
        "  {:>7}  {:>9}  {}{}{}\n", batch_words(way), format_bytes(way.memory_bytes), way.strategy,
        way.activation_checkpointing ? " +ckpt" : "", rung.note.empty() ? "" : "  " + rung.note);
  }
  return text + "\n";
}

}  // namespace

std::string plan_text(const Plan& plan, const PlanTextOptions& options) {
  const Painter paint(options.colors);
  std::string text = head(plan, paint) + numbers_of_plan(plan, paint) + scaling_of(plan);
  if (!plan.choice.fits) {
    text += paint.bad(plan.missing_bytes > 0 ? fmt::format("does not fit: {} too much on each GPU",
                                                           format_bytes(plan.missing_bytes))
                                             : std::string("does not fit in the host's memory")) +
            "\n";
    for (const std::string& way : plan.ways_out) text += "  would do: " + way + "\n";
    text += "\n";
  }
  if (options.compare && !plan.alternatives.empty())
    text += "other ways, the best of each:\n" + ways_text(plan.alternatives, plan.choice) + "\n";
  if (plan.ladder.size() > 1) text += ladder_text(plan);
  if (!plan.settings.empty()) {
    text += "settings:\n";
    for (const PlannedSetting& setting : plan.settings) {
      const std::string value = fmt::format("  {} {}", setting.name, setting.value);
      text += fmt::format("{:<38} {}\n", value, paint.faint(setting.reason));
    }
    text += "\n";
  }
  if (options.why) {
    text += "why:\n";
    for (const ExplainedNumber& number : plan.numbers) {
      const std::string value = number.unit == "bytes" ? format_bytes(number.value)
                                : number.unit == "ms"
                                    ? milliseconds(number.value)
                                    : fmt::format("{} {}", count(number.value), number.unit);
      text += fmt::format("  {:<36} {:>12}  {}\n", number.name, value, number.formula);
    }
    text += fmt::format("  {} settings were tried\n\n", plan.candidates);
  }
  if (!plan.assumptions.empty()) {
    const PlanAssumption& first = plan.assumptions.front();
    text += wrapped(
        fmt::format("matters most: {} ({:.3g} {}). If it is {} off, {} changes by {}.{}",
                    first.name, first.value, first.unit, whole_percent(first.doubt),
                    first.step_effect >= first.memory_effect ? "the step" : "memory",
                    whole_percent(std::max(first.step_effect, first.memory_effect)),
                    plan.calibrated ? " Corrected by a measured step."
                                    : " --calibrate measures a step here and corrects the model."),
        0, kWidth);
  }
  if (!options.start.empty()) text += "\nstart it: " + paint.bold(options.start) + "\n";
  return text;
}

}  // namespace lockstep
