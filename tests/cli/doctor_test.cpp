#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

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
  const auto end =
      run_lockstep({"doctor", "--quick", "virtual:2"}, {{"LOCKSTEP_VIRTUAL_SCOPE", "nobody"}});

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

  const auto end = run_lockstep({"doctor", "--quick", "--json", "virtual:" + file.string()});

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

  const auto end = run_lockstep({"doctor", "--quick", "virtual:" + file.string()});

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.out, HasSubstr("no answer within"));
}

TEST(Doctor, WithoutADriverSaysWhatToDo) {
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "this machine has an NVIDIA driver";

  const auto end = run_lockstep({"doctor", "--quick"});

  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.out, HasSubstr("no  GPUs can be read"));
  EXPECT_THAT(end.out, HasSubstr("yes virtual GPUs can be used"));
}

TEST(Doctor, AnswersYesNoOrUnknownAlwaysWithWhatWasSeen) {
  const auto end =
      run_lockstep({"doctor", "--json", "--quick", "virtual:2"},
                   {{"LOCKSTEP_VIRTUAL_SCOPE", "nobody"}, {"CUDA_LAUNCH_BLOCKING", "1"}});

  EXPECT_EQ(end.code, 1) << "a variable does harm";
  std::set<std::string> groups;
  const auto report = nlohmann::json::parse(end.out);
  for (const auto& check : report.at("checks")) {
    const std::string answer = check.at("answer");
    EXPECT_TRUE(answer == "yes" || answer == "no" || answer == "unknown") << check;
    EXPECT_FALSE(check.at("detail").get<std::string>().empty()) << check;
    EXPECT_EQ(check.at("next").is_null(), answer != "no") << check;
    groups.insert(check.at("group"));
  }
  for (const char* const group :
       {"machine", "network", "environment", "GPU", "signals", "processes", "virtual GPUs"})
    EXPECT_TRUE(groups.contains(group)) << group;
  EXPECT_FALSE(groups.contains("communication")) << "--quick runs no programs";
}

TEST(Doctor, AnswersOthersUntilItsTimeIsOver) {
  const auto end = run_lockstep({"doctor", "--answer", "0"});

  EXPECT_EQ(end.code, 2) << "0 is no port";
  EXPECT_EQ(run_lockstep({"doctor", "--answer", "29781", "--duration", "300ms"}).code, 0);
}

TEST(Doctor, RefusesWhatMakesNoSense) {
  EXPECT_EQ(run_lockstep({"doctor", "--ranks", "2"}).code, 2) << "of --ddp alone";
  EXPECT_EQ(run_lockstep({"doctor", "--ddp", "--ranks", "none"}).code, 2);
  EXPECT_EQ(run_lockstep({"doctor", "--port", "70000"}).code, 2);
}

}  // namespace
}  // namespace lockstep
