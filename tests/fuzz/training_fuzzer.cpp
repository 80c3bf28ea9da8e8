// Config files and reports with any content: settings that come out of them are settings that go in
// again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "training/report_settings.hpp"
#include "training/train_settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  lockstep::TrainSettings settings;
  std::vector<std::string> given;
  if (lockstep::read_train_config(settings, text, "config.json", given)) {
    lockstep::TrainSettings again;
    // A word that is no UTF-8 cannot be written as JSON; the parser lets none through.
    if (!lockstep::read_train_config(again, lockstep::train_config_text(settings), "config.json",
                                     given) ||
        again != settings)
      std::abort();
  }
  if (const auto choices = lockstep::settings_in_report(text, settings))
    for (const lockstep::Choice& choice : *choices)
      (void)lockstep::set_setting(settings, choice.setting, choice.value);
  return 0;
}
