#include "commands/fix_options.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/text.hpp"
#include "commands/finding_codes.hpp"
#include "commands/fix_settings.hpp"
#include "fix/chosen_patches.hpp"

namespace lockstep {

namespace fs = std::filesystem;

Result<Wishes> checked_wishes(const FixOptions& typed) {
  Wishes wishes;
  if (typed.preset == "standard")
    wishes.preset = Preset::standard;
  else if (typed.preset == "fast")
    wishes.preset = Preset::fast;
  else if (!typed.preset.empty())
    return usage_error(fmt::format("--preset {} is unknown", printable(typed.preset)),
                       "use standard or fast");
  if (typed.global_batch == "keep")
    wishes.batch = GlobalBatch::keep;
  else if (!typed.global_batch.empty() && typed.global_batch != "grow")
    return usage_error(fmt::format("--global-batch {} is unknown", printable(typed.global_batch)),
                       "use grow (batch x N) or keep (accumulation / N)");
  if (!typed.gpus.empty()) {
    const auto count = parse_integer(typed.gpus);
    if (!count || *count < 1 || *count > 1024)
      return usage_error(fmt::format("--gpus {} is no number of GPUs", printable(typed.gpus)),
                         "give how many one machine has: --gpus 4");
    wishes.gpus = static_cast<int>(*count);
  }
  if (wishes.preset != Preset::none && wishes.batch == GlobalBatch::keep)
    return usage_error("--preset and --global-batch keep both choose the accumulation",
                       "give one of them; a preset keeps the batch that each GPU has");
  return wishes;
}

Result<std::optional<Versions>> checked_versions(const FixOptions& typed) {
  if (typed.assume.empty()) return std::optional<Versions>();
  Versions versions;
  for (const std::string& word : typed.assume) {
    const auto equals = word.find('=');
    const auto digits = word.find_first_not_of('=', std::min(word.size(), equals));
    const auto version = Version::parse(equals == std::string::npos || digits == std::string::npos
                                            ? ""
                                            : std::string_view(word).substr(digits));
    const std::string package = word.substr(0, equals);
    if (package != "transformers" && package != "accelerate" && package != "torch" &&
        package != "trl")
      return usage_error(
          fmt::format("--assume {} names a package that no rule asks for", printable(word)),
          "transformers, accelerate, torch and trl count");
    if (!version)
      return usage_error(fmt::format("--assume {} is no version", printable(word)),
                         "write it so: --assume transformers=4.44.2");
    versions.emplace(package, KnownVersion{*version, "--assume", true});
  }
  return std::optional(std::move(versions));
}

Status take_settings(FixOptions& typed, CodeFilter& filter) {
  std::error_code failed;
  const fs::path first = typed.paths.empty() ? fs::path(".") : fs::path(typed.paths.front());
  const auto settings = TRY(fix_settings_of(
      fs::is_directory(first, failed) ? first : fs::absolute(first, failed).parent_path()));
  if (typed.select.empty()) typed.select = settings.select;
  if (typed.ignore.empty()) typed.ignore = settings.ignore;
  typed.exclude.insert(typed.exclude.end(), settings.exclude.begin(), settings.exclude.end());
  for (const auto& [glob, codes] : settings.per_file_ignores)
    filter.per_file.emplace_back(glob, TRY(codes_of(codes)));
  return Done{};
}

Status settle_apply(FixOptions& typed) {
  if (typed.apply_words.empty()) return Done{};
  if (const auto numbers = patch_numbers(typed.apply_words))
    typed.numbers = *numbers;
  else
    typed.paths.insert(typed.paths.begin(), typed.apply_words);
  if (!typed.numbers.empty() && typed.interactive)
    return usage_error("--interactive asks for each patch, and --apply names some",
                       "give one of them");
  return Done{};
}

}  // namespace lockstep
