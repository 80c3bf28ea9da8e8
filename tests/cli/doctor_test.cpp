#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"
#include "support/sample_recording.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::plateau;
using testing::recording_text;
using testing::run_lockstep;
using testing::TemporaryFolder;
using testing::two_gpu_machine;

TEST(Doctor, FindsVirtualGpusInOrder) {
  const auto end = run_lockstep({"doctor", "virtual:2"}, {{"LOCKSTEP_VIRTUAL_SCOPE", "nobody"}});

  EXPECT_EQ(end.code, 0) << end.out;
  EXPECT_THAT(end.out, HasSubstr("yes 20 ms power samples"));
  EXPECT_THAT(end.out, HasSubstr("yes watching costs under 1 %"));
  EXPECT_THAT(end.out, HasSubstr("WSL2"));
}

TEST(Doctor, ANoEndsWithOneAndANextStep) {
  const TemporaryFolder folder;
  std::vector<Record> records = plateau({0.5, 0.25}, 5);
  records.insert(records.begin(), {0, Event{"not_supported", std::nullopt, "busy"}});
  const auto file = folder.write("run", recording_text(two_gpu_machine(), records));

  const auto end = run_lockstep({"doctor", "--json", "virtual:" + file.string()});

  EXPECT_EQ(end.code, 1);
  bool found = false;
  const auto report = nlohmann::json::parse(end.out);
  for (const auto& check : report.at("checks")) {
    if (check.at("answer") == "no") {
      EXPECT_FALSE(check.at("next").is_null()) << check;
    }
    found = found || (check.at("question") == "utilization" && check.at("answer") == "no");
  }
  EXPECT_TRUE(found);
}

TEST(Doctor, EndsThoughTheDriverHangs) {
  const TemporaryFolder folder;
  std::vector<Record> records = plateau({0.5, 0.25}, 1);
  records.insert(records.begin(), {0, Event{"hang", std::nullopt, ""}});
  const auto file = folder.write("run", recording_text(two_gpu_machine(), records));

  const auto end = run_lockstep({"doctor", "virtual:" + file.string()});

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.out, HasSubstr("no answer within"));
}

TEST(Doctor, WithoutADriverSaysWhatToDo) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has an NVIDIA driver";

  const auto end = run_lockstep({"doctor"});

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.out, HasSubstr("no  GPUs can be read"));
  EXPECT_THAT(end.out, HasSubstr("yes virtual GPUs can be used"));
}

}  // namespace
}  // namespace lockstep
