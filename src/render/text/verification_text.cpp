#include "render/text/verification_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/median.hpp"
#include "base/text.hpp"
#include "render/text/paint.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

std::string time_words(double seconds) {
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string speed_words(SpeedBasis basis, double speed) {
  switch (basis) {
    case SpeedBasis::samples: return fmt::format("{:.1f} samples/s", speed);
    case SpeedBasis::batches: return fmt::format("{:.1f} batches/s", speed);
    case SpeedBasis::gpu_work: return fmt::format("{:.2f} GPUs busy", speed);
    case SpeedBasis::whole_run: break;
  }
  return "";
}

std::string interval_words(const Speedup& speedup) {
  if (!std::isfinite(speedup.high) || speedup.low <= 0) return "one round: no interval";
  return fmt::format("{:.2f}-{:.2f}", speedup.low, speedup.high);
}

const char* basis_words(SpeedBasis basis) {
  switch (basis) {
    case SpeedBasis::samples: return "samples a second of all ranks";
    case SpeedBasis::batches: return "batches a second of all ranks (their size is not known)";
    case SpeedBasis::gpu_work: return "the GPUs' busy time (no step was seen)";
    case SpeedBasis::whole_run: return "the time of whole runs (no step was seen)";
  }
  return "";
}

bool variants_are_single(const Verification& verification) {
  return verification.variants.front().speeds.size() < 2;
}

std::string verdict(const Verification& verification, bool only_steps, const Painter& paint) {
  const Speedup& all = verification.speedups.back();
  const double before = median(verification.variants.front().seconds);
  const double after = median(verification.variants.back().seconds);
  const std::string times = verification.cut_short
                                ? ""
                                : fmt::format(": {} -> {}", time_words(before), time_words(after));
  if (only_steps)
    return paint.bold(fmt::format("not shown to help: the steps are {:.2f} times as fast, and the "
                                  "runs took no less time{}; measure with a longer run",
                                  all.ratio, times)) +
           "\n";
  if (all.helped())
    return paint.good(fmt::format("it helped: {:.2f}x (95 % interval {}){}", all.ratio,
                                  interval_words(all), times)) +
           "\n";
  if (all.harmed())
    return paint.bold(fmt::format("it made things slower: {:.2f}x (95 % interval {}){}", all.ratio,
                                  interval_words(all), times)) +
           "\n";
  if (variants_are_single(verification))
    return paint.bold(fmt::format(
               "one round of each: {:.2f}x{}; what that is worth needs more (--rounds 5)",
               all.ratio, times)) +
           "\n";
  return paint.bold(fmt::format("not shown to help: {:.2f}x, and the interval ({}) does not "
                                "exclude that nothing changed{}",
                                all.ratio, interval_words(all), times)) +
         "\n";
}

}  // namespace

std::string verification_text(const Verification& verification, bool only_steps,
                              const std::vector<CheckItem>& checklist, Colors colors) {
  const Painter paint(colors);
  const auto& variants = verification.variants;
  std::string text = fmt::format("measured by {}, {} {} by turns\n\n",
                                 basis_words(verification.basis), variants.front().speeds.size(),
                                 variants.front().speeds.size() == 1 ? "round" : "rounds");
  const bool ladder = variants.size() > 2;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Speedup& speedup = verification.speedups[i];
    const std::string gain =
        i == 0 ? "" : fmt::format("{:.2f}x ({})", speedup.ratio, interval_words(speedup));
    if (ladder) text += fmt::format("  {}  {}\n", i, printable(variants[i].title));
    text += fmt::format("  {:<24}{:>10}  {:>18}  {}\n", ladder ? "" : printable(variants[i].title),
                        time_words(median(variants[i].seconds)),
                        speed_words(verification.basis, median(variants[i].speeds)), gain);
  }
  if (ladder) text += "\n  each line has all patches of the lines above it\n";
  text += "\n" + verdict(verification, only_steps, paint);
  text += fmt::format("  as it is: {}\n  patched:  {}\n", command_words(variants.front().command),
                      command_words(variants.back().command));
  if (!checklist.empty()) text += "\na healthy run, patched:\n";
  for (const CheckItem& item : checklist)
    text += fmt::format("  {}  {}: {}\n", item.yes.value_or(false) ? paint.good("yes") : "no ",
                        item.question, item.measured);
  return text;
}

}  // namespace lockstep
