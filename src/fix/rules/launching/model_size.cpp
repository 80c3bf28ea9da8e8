#include "fix/rules/launching/model_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace lockstep {
namespace {

// Bytes a parameter: weights, gradients and Adam's two moments. Mixed precision keeps an fp32 copy
// (2+2+4+8, ZeRO paper §3.1: 16); plain bf16 training of bf16 weights has 2+2+4; QLoRA keeps
// weights at about half a byte and trains next to nothing.
constexpr double kFullFineTune = 16;
constexpr double kFrozenHalf = 2;
constexpr double kFrozen8Bit = 1.1;
constexpr double kFrozen4Bit = 0.6;
constexpr double kUsable = 76;  // of 80 GB: the driver, NCCL and the allocator take the rest

bool calls(const TrainingCode& code, std::string_view name) {
  return std::ranges::any_of(code.all,
                             [&](const CallAt& item) { return item.call->last_name() == name; });
}

}  // namespace

std::optional<double> billions_in_name(std::string_view name) {
  static const std::regex kSize(
      R"((?:^|[^A-Za-z0-9.])(\d{1,4}(?:[._]\d{1,4})?)\s?([bBmM])(?![A-Za-z0-9]))");
  constexpr std::size_t kLongestName = 200;  // std::regex takes stack by length
  if (name.size() > kLongestName) return std::nullopt;
  std::match_results<std::string_view::const_iterator> found;
  if (!std::regex_search(name.begin(), name.end(), found, kSize)) return std::nullopt;
  std::string digits = found[1].str();
  std::ranges::replace(digits, '_', '.');  // Qwen-1_8B
  const double number = std::stod(digits);
  const char unit = *found[2].first;
  return unit == 'b' || unit == 'B' ? number : number / 1000;
}

ModelNeeds model_needs(const PythonModule& module, const TrainingCode& code, const PythonCall& load,
                       bool quantised) {
  ModelNeeds needs;
  const PythonArgument* first = load.given("pretrained_model_name_or_path", 0);
  if (first == nullptr) return needs;
  const Node value =
      first->value.is("identifier") ? module.only_value_of(first->value.text()) : first->value;
  const auto name = string_value(value);
  needs.is_named = name.has_value();
  const auto size = name ? billions_in_name(*name) : std::nullopt;
  if (!size) return needs;
  const bool adapters = calls(code, "get_peft_model") || calls(code, "LoraConfig") ||
                        calls(code, "prepare_model_for_kbit_training");
  const bool four_bit =
      quantised && module.tree().source().find("load_in_8bit") == std::string_view::npos;
  const double bytes = !adapters && !quantised ? kFullFineTune
                       : !quantised            ? kFrozenHalf
                       : four_bit              ? kFrozen4Bit
                                               : kFrozen8Bit;
  const double gigabytes = *size * bytes;
  needs.fits_80_gb = gigabytes <= kUsable;
  needs.words =
      fmt::format("{:g}B parameters, {}: about {:.0f} GB a GPU before activations{}", *size,
                  !adapters && !quantised ? "all of them trained with Adam"
                  : adapters              ? (quantised ? (four_bit ? "frozen in 4 bit with adapters"
                                                                   : "frozen in 8 bit with adapters")
                                                       : "frozen with adapters")
                                          : "quantised",
                  std::max(1.0, gigabytes), needs.fits_80_gb ? "" : ", more than an 80 GB GPU has");
  return needs;
}

}  // namespace lockstep
