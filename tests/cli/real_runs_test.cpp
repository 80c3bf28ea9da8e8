// Runs that other people made: every labelled one gets a right or acceptable verdict and raises no
// false alarm.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/real_data.hpp"
#include "support/run_program.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace testing;
namespace fs = std::filesystem;

bool contains(const json& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

json diagnosis_of(const fs::path& file) {
  const ProgramEnd end = run_lockstep({"diagnose", file.string(), "--json", "--quiet"});
  EXPECT_TRUE(end.code == 0 || end.code == 1) << file << ": " << end.err;
  return json::parse(end.out, nullptr, false);
}

TEST(RealRuns, GetRightOrAcceptableVerdicts) {
  const fs::path runs = real_data() / "runs";
  SKIP_WITHOUT_DATA(runs / "labels.json");
  std::ifstream stream(runs / "labels.json");
  const json labels = json::parse(stream);

  for (const auto& [name, label] : labels.items()) {
    const json report = diagnosis_of(runs / name);
    const std::string pattern = report["verdict"]["pattern"];
    EXPECT_TRUE(contains(label["right"], pattern) || contains(label["accept"], pattern))
        << name << " was called " << pattern;
    bool found_one = !label.contains("must_one_of");
    for (const json& finding : report["findings"]) {
      const std::string code = finding["code"];
      EXPECT_FALSE(contains(label["must_not"], code)) << name << ": false alarm " << code;
      found_one = found_one || contains(label["must_one_of"], code);
    }
    EXPECT_TRUE(found_one) << name << " misses all of " << label["must_one_of"];
  }
}

TEST(RealLogs, OfPeoplesOwnScriptsAreRead) {
  const fs::path logs = real_data() / "logs";
  SKIP_WITHOUT_DATA(logs);

  const json own = diagnosis_of(logs / "own_script_8gpu.csv");
  EXPECT_EQ(own["source"]["kind"], "csv");
  EXPECT_EQ(own["gpus"].size(), 8U);
  EXPECT_EQ(own["verdict"]["pattern"], "in-step");
  EXPECT_TRUE(own["findings"].empty()) << own["findings"];

  const json text = diagnosis_of(logs / "nvml_text_4gpu_10hz.txt");
  EXPECT_EQ(text["gpus"].size(), 4U);
  EXPECT_NEAR(text["duration_s"].get<double>(), 130, 5) << "ten readings share each second";
}

TEST(RealLogs, OfAFewSnapshotsProveNoTurns) {
  const fs::path logs = real_data() / "logs";
  SKIP_WITHOUT_DATA(logs);

  for (const char* name : {"nvidia_smi_table_6gpu_5snap.txt", "nvidia_smi_table_8gpu.log"}) {
    const json report = diagnosis_of(logs / name);
    EXPECT_EQ(report["source"]["kind"], "nvidia-smi");
    EXPECT_NE(report["verdict"]["pattern"], "taking-turns") << name;
    EXPECT_TRUE(report["findings"].empty()) << name << report["findings"];
  }
}

}  // namespace
}  // namespace lockstep
