// `lockstep fix` as people call it: formats, exit codes, apply and undo, reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "support/run_program.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using testing::content_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramEnd;
using testing::run_lockstep;
using testing::run_program;
using testing::TemporaryFolder;
using Json = nlohmann::json;

constexpr const char* kTrain =
    "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    "\n"
    "model = AutoModelForCausalLM.from_pretrained(\"gpt2\", device_map=\"auto\")\n"
    "args = TrainingArguments(\n"
    "    output_dir=\"out\",\n"
    "    dataloader_num_workers=4,\n"
    "    bf16=True,\n"
    "    evaluation_strategy=\"no\",\n"
    ")\n"
    "trainer = Trainer(model=model, args=args)\n"
    "trainer.train()\n";
constexpr const char* kRun = "#!/bin/bash\nCUDA_VISIBLE_DEVICES=0,1 python train.py\n";
constexpr const char* kHealthy = "print('nothing here')\n";

// A project with two faults, and a state folder of its own.
struct Work {
  Work() {
    tree.write("train.py", kTrain);
    tree.write("run.sh", kRun);
    tree.write("requirements.txt", "transformers==4.57.0\n");
    ::chmod((tree / "run.sh").c_str(), 0755);
  }
  ProgramEnd fix(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "fix");
    return run_lockstep(std::move(arguments), {{"XDG_STATE_HOME", (state / "state").string()}});
  }
  std::string path() const { return tree.path().string(); }

  TemporaryFolder tree;
  TemporaryFolder state;
};

TEST(Fix, ShowsDiffCodeReasonLevelAndEffectAndWritesNothing) {
  Work work;

  const ProgramEnd end = work.fix({work.path()});

  EXPECT_EQ(end.code, 0) << end.err;
  for (const char* words :
       {"P101 taking-turns  [unsafe]", "X701 world-size-not-set  [unsafe]",
        "X702 unknown-training-argument  [safe]",
        "why:", "effect:", "changes:", "-CUDA_VISIBLE_DEVICES=0,1 python train.py",
        "+CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=2 train.py"})
    EXPECT_THAT(end.out, HasSubstr(words));
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
  EXPECT_FALSE(std::filesystem::exists(work.state / "state"));
}

TEST(Fix, AppliesTheSafePatchesThenTheUnsafeAndTakesBothBack) {
  Work work;

  EXPECT_EQ(work.fix({"--apply", work.path()}).code, 0);
  EXPECT_THAT(content_of(work.tree / "train.py"), HasSubstr("    eval_strategy=\"no\",\n"));
  EXPECT_THAT(content_of(work.tree / "train.py"), HasSubstr("device_map"));
  EXPECT_EQ(content_of(work.tree / "run.sh"), kRun);

  EXPECT_EQ(work.fix({"--apply", "--unsafe", work.path()}).code, 0);
  EXPECT_THAT(content_of(work.tree / "train.py"), Not(HasSubstr("device_map")));
  EXPECT_THAT(content_of(work.tree / "run.sh"), HasSubstr("torchrun"));
  struct stat facts{};
  ::stat((work.tree / "run.sh").c_str(), &facts);
  EXPECT_EQ(facts.st_mode & 07777U, 0755U);

  EXPECT_EQ(work.fix({"--undo"}).code, 0);
  EXPECT_EQ(content_of(work.tree / "run.sh"), kRun);
  EXPECT_THAT(content_of(work.tree / "train.py"), HasSubstr("eval_strategy"));
  EXPECT_EQ(work.fix({"--undo"}).code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
  EXPECT_EQ(work.fix({"--undo"}).code, 2);
}

TEST(Fix, CheckEndsWithOneWhereSomethingWouldChangeAndZeroWhereNothingWould) {
  Work work;
  TemporaryFolder healthy;
  healthy.write("x.py", kHealthy);

  EXPECT_EQ(work.fix({"--check", work.path()}).code, 1);
  EXPECT_EQ(work.fix({"--check", healthy.path().string()}).code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
}

TEST(Fix, SelectAndIgnoreGoByCode) {
  Work work;

  EXPECT_THAT(work.fix({"--select", "X702", work.path()}).out, Not(HasSubstr("P101")));
  EXPECT_THAT(work.fix({"--ignore", "X702,X701", work.path()}).out, HasSubstr("left out"));
  EXPECT_EQ(work.fix({"--check", "--ignore", "P101,X702", work.path()}).code, 0)
      << "a group of which one part is ignored is left out whole";
}

TEST(Fix, WritesTheReportOfAllCommandsAsJson) {
  Work work;

  const Json report = Json::parse(work.fix({"--json", work.path()}).out);

  EXPECT_EQ(report["lockstep_report"], 1);
  EXPECT_EQ(report["source"]["kind"], "code");
  const Json& finding = report["findings"][0];
  EXPECT_EQ(finding["code"], "X701");
  EXPECT_EQ(finding["where"][0]["line"], 2);
  EXPECT_EQ(finding["fixes"][0]["safety"], "unsafe");
  EXPECT_EQ(finding["fixes"][0]["group"], 1);
  EXPECT_THAT(finding["fixes"][0]["diff"].get<std::string>(), HasSubstr("+++ b/"));
}

TEST(Fix, AppliesThePatchesOfAReport) {
  Work work;
  const std::string report = (work.state / "report.json").string();
  ASSERT_EQ(work.fix({"--json", "-o", report, work.path()}).code, 0);

  EXPECT_EQ(work.fix({"--from", report}).code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain) << "shown only";
  EXPECT_EQ(work.fix({"--from", report, "--apply", "--unsafe"}).code, 0);
  EXPECT_THAT(content_of(work.tree / "train.py"), Not(HasSubstr("device_map")));
  EXPECT_THAT(content_of(work.tree / "run.sh"), HasSubstr("torchrun"));
  EXPECT_EQ(work.fix({"--undo"}).code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
}

TEST(Fix, RefusesAReportWhoseFilesHaveChanged) {
  Work work;
  const std::string report = (work.state / "report.json").string();
  ASSERT_EQ(work.fix({"--json", "-o", report, work.path()}).code, 0);
  work.tree.write("run.sh", "#!/bin/bash\necho other\n");

  const ProgramEnd end = work.fix({"--from", report, "--apply", "--unsafe"});

  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.err, HasSubstr("changed since"));
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain) << "all or none";
}

TEST(Fix, AppliesAReportWhosePatchesChangeTheSameLine) {
  Work work;
  work.tree.write(
      "train.py",
      "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments(\"o\", "
      "bf16=True, logging_steps=1, evaluation_strategy=\"no\", dataloader_num_workers=0)\ntrainer "
      "= Trainer(model=m, args=args)\ntrainer.train()\n");
  const std::string report = (work.state / "report.json").string();
  ASSERT_EQ(work.fix({"--json", "-o", report, work.path()}).code, 0);

  const ProgramEnd end = work.fix({"--from", report, "--apply", "--unsafe"});

  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(content_of(work.tree / "train.py"),
              HasSubstr("logging_steps=10, eval_strategy=\"no\", dataloader_num_workers=4"));
}

TEST(Fix, RefusesAReportThatWantsTheWholeDiskOrHiddenFiles) {
  Work work;
  work.tree.write(".bashrc", "x\n");
  const auto report_for = [&](const std::string& root, const std::string& name) {
    const Json fix = {{"kind", "edit"},
                      {"safety", "safe"},
                      {"description", "x"},
                      {"command", Json::array()},
                      {"diff", "--- a/" + name + "\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+evil\n"},
                      {"root", root},
                      {"group", 1}};
    return work.state
        .write("report.json",
               Json{{"lockstep_report", 1}, {"findings", {{{"code", "P101"}, {"fixes", {fix}}}}}}
                   .dump())
        .string();
  };

  EXPECT_EQ(
      work.fix({"--from", report_for("/", (work.tree / "train.py").string().substr(1)), "--apply"})
          .code,
      3);
  EXPECT_EQ(work.fix({"--from", report_for(work.path(), ".bashrc"), "--apply"}).code, 3);
  EXPECT_EQ(work.fix({"--from", report_for(work.path(), "train.py"), "--apply"}).code, 3)
      << "the lines say nothing of where they belong";

  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
  EXPECT_EQ(content_of(work.tree / ".bashrc"), "x\n");
}

TEST(Fix, WritesThroughALinkThatIsNamedAndKeepsIt) {
  Work work;
  std::filesystem::create_symlink("train.py", work.tree / "link.py");

  EXPECT_EQ(work.fix({"--apply", (work.tree / "link.py").string()}).code, 0);

  EXPECT_TRUE(std::filesystem::is_symlink(work.tree / "link.py"));
  EXPECT_THAT(content_of(work.tree / "train.py"), HasSubstr("eval_strategy"));
}

TEST(Fix, EndsWithThreeWhereNothingThatWasNamedCanBeRead) {
  Work work;
  work.tree.write("x.py", std::string("\0\1", 2));

  EXPECT_EQ(work.fix({(work.tree / "x.py").string()}).code, 3);
}

TEST(Fix, UndoTakesTheNewestOfTheFolderWeAreIn) {
  Work here;
  Work elsewhere;
  const auto fix_in = [&](const Work& work, const std::string& words) {
    return run_program(
        {"sh", "-c", "cd " + work.path() + " && " + testing::lockstep_program() + " fix " + words},
        {{"XDG_STATE_HOME", (here.state / "state").string()}});
  };
  fix_in(here, "--apply .");
  fix_in(elsewhere, "--apply .");

  EXPECT_EQ(fix_in(here, "--undo").code, 0);

  EXPECT_EQ(content_of(here.tree / "train.py"), kTrain);
  EXPECT_NE(content_of(elsewhere.tree / "train.py"), kTrain);
}

TEST(Fix, RefusesAReportThatPointsOutOfItsRoot) {
  Work work;
  work.tree.write("outside.txt", "secret\n");
  std::filesystem::create_directory(work.tree / "in");
  const Json fix = {
      {"kind", "edit"},
      {"safety", "safe"},
      {"description", "x"},
      {"command", Json::array()},
      {"diff", "--- a/../outside.txt\n+++ b/../outside.txt\n@@ -1 +1 @@\n-secret\n+gone\n"},
      {"root", (work.tree / "in").string()},
      {"group", 1}};
  const Json report = {{"lockstep_report", 1},
                       {"findings", {{{"code", "P101"}, {"fixes", {fix}}}}}};
  const auto file = work.state.write("report.json", report.dump());

  const ProgramEnd end = work.fix({"--from", file.string(), "--apply"});

  EXPECT_NE(end.code, 0);
  EXPECT_EQ(content_of(work.tree / "outside.txt"), "secret\n");
}

TEST(Fix, WritesSarif) {
  Work work;

  const Json log = Json::parse(work.fix({"--format", "sarif", work.path()}).out);

  EXPECT_EQ(log["version"], "2.1.0");
  EXPECT_EQ(log["runs"][0]["tool"]["driver"]["name"], "lockstep");
  EXPECT_EQ(log["runs"][0]["results"][0]["ruleId"], "X701");
  EXPECT_EQ(log["runs"][0]["results"][0]["level"], "error");
  EXPECT_EQ(log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"],
            2);
}

TEST(Fix, WritesGithubsLines) {
  Work work;

  EXPECT_THAT(work.fix({"--format", "github", work.path()}).out,
              HasSubstr("train.py,line=3,title=P101 taking-turns::"));
}

// In the project's own folder, as --verify has to be called.
ProgramEnd verify(const Work& work, const std::string& words) {
  return run_program({"sh", "-c",
                      "cd '" + work.path() + "' && XDG_STATE_HOME='" +
                          (work.state / "state").string() + "' '" + testing::lockstep_program() +
                          "' fix . --verify " + words});
}

TEST(FixVerify, NeedsACommandAndItsOptionsNeedIt) {
  Work work;

  EXPECT_EQ(verify(work, "").code, 2);
  EXPECT_THAT(verify(work, "").err, HasSubstr("lockstep fix . --verify -- python train.py"));
  EXPECT_EQ(verify(work, "--rounds 0 -- true").code, 2);
  EXPECT_EQ(work.fix({work.path(), "--each"}).code, 2);
  EXPECT_EQ(work.fix({work.path(), "--", "true"}).code, 2);
}

TEST(FixVerify, RunsTheCommandOnCopiesAndLeavesTheProjectAlone) {
  Work work;
  // The copy is told by what it holds: the safe patch renames an argument.
  const ProgramEnd end =
      verify(work,
             "--rounds 2 --json -- sh -c 'grep -q eval_strategy= train.py && grep -q "
             "evaluation_strategy train.py || sleep 0.3; echo seen > out.txt'");

  ASSERT_THAT(end.out, HasSubstr("verification")) << end.err;
  const Json verification = Json::parse(end.out)["verification"];
  EXPECT_EQ(verification["measured_by"], "whole_run");
  ASSERT_EQ(verification["variants"].size(), 2U);
  EXPECT_EQ(verification["variants"][0]["title"], "as it is");
  EXPECT_EQ(verification["variants"][1]["seconds"].size(), 2U);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
  EXPECT_FALSE(std::filesystem::exists(work.tree / "out.txt"));
}

TEST(FixVerify, SaysHowACommandFailed) {
  Work work;
  const ProgramEnd end = verify(work, "--rounds 2 -- sh -c 'echo no data here; exit 7'");

  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.err, HasSubstr("ended with code 7"));
  EXPECT_THAT(end.err, HasSubstr("no data here"));
}

TEST(FixVerify, HasNothingToProveWithoutAPatch) {
  Work work;
  work.tree.write("train.py", kHealthy);
  const ProgramEnd end = verify(work, "-- true");

  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.err, HasSubstr("there is no patch to verify"));
}

TEST(Fix, DiffsCanBeGivenToPatch) {
  if (run_program({"sh", "-c", "command -v patch"}).code != 0)
    GTEST_SKIP() << "patch is not installed here";
  Work work;
  work.tree.write("Makefile", "t:\n\tCUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  const ProgramEnd end = run_program({"sh", "-c",
                                      "cd " + work.path() + " && " + testing::lockstep_program() +
                                          " fix --ignore X702 . | patch -p1"});

  EXPECT_EQ(end.code, 0) << end.out;
  EXPECT_EQ(content_of(work.tree / "Makefile"),
            "t:\n\tCUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=2 train.py\n");
}

TEST(Fix, AWriteThatFailsInTheMiddleChangesNothing) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer keeps its own memory in files, which the limit on file "
                  "sizes below hits first";
#endif
  Work work;
  // Longer than the limit on file sizes below, so that writing it fails as on a full disk, after
  // run.sh is written.
  work.tree.write("train.py", std::string(kTrain) + "# " + std::string(4000, 'x') + "\n");
  const std::string before = content_of(work.tree / "train.py");

  const ProgramEnd end =
      run_program({"bash", "-c",
                   "trap '' XFSZ; ulimit -f 2; exec " + testing::lockstep_program() +
                       " fix --apply --unsafe " + work.path() + " -o /dev/null"},
                  {{"XDG_STATE_HOME", (work.state / "state").string()}});

  EXPECT_EQ(end.code, 3) << end.err;
  EXPECT_THAT(end.err, HasSubstr("nothing was changed"));
  EXPECT_EQ(content_of(work.tree / "train.py"), before);
  EXPECT_EQ(content_of(work.tree / "run.sh"), kRun);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(work.tree.path()),
                          std::filesystem::directory_iterator()),
            3);
}

TEST(Fix, TakesAReportWithoutPatchesForTheSelection) {
  Work work;
  const auto report_of = [&](const std::string& code) {
    work.state.write("report.json", "{\"lockstep_report\": 1, \"findings\": [{\"code\": \"" + code +
                                        "\", \"fixes\": []}]}");
    return (work.state / "report.json").string();
  };
  const ProgramEnd matched = work.fix({work.path(), "--from", report_of("P102")});
  EXPECT_EQ(matched.code, 0) << matched.err;
  EXPECT_THAT(matched.out, HasSubstr("X701")) << "plain python may be behind P102";
  EXPECT_THAT(matched.out, Not(HasSubstr("X702")));

  EXPECT_THAT(work.fix({work.path(), "--from", report_of("S304")}).out,
              HasSubstr("nothing in " + work.path() + " matches its findings (S304)"));
  EXPECT_THAT(work.fix({"--from", report_of("P101")}).out, HasSubstr("lockstep fix PATH --from"));
}

// ---- what people who know ruff expect ----

TEST(Fix, AppliesThePatchesOfTheseNumbersAlone) {
  Work work;
  const ProgramEnd end = work.fix({"--apply", "1", work.path()});

  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.err, HasSubstr("1 patch applied"));
  EXPECT_EQ(work.fix({"--undo"}).code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
  const ProgramEnd unknown = work.fix({"--apply", "1,77", work.path()});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("patch 77 is none of those shown"));
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain) << "all or none";
}

TEST(Fix, AsksForEachPatchAndWritesWhatWasAnsweredWithYes) {
  Work work;
  const auto answered = [&](const std::string& answers) {
    return run_program(
        {"sh", "-c",
         "printf '" + answers + "' | " + testing::lockstep_program() + " fix -i " + work.path()},
        {{"XDG_STATE_HOME", (work.state / "state").string()}});
  };
  EXPECT_EQ(answered("n\nq\n").code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
  EXPECT_EQ(content_of(work.tree / "run.sh"), kRun);
  EXPECT_EQ(answered("").code, 0) << "an end of the answers is an end";
  EXPECT_EQ(content_of(work.tree / "run.sh"), kRun);

  EXPECT_EQ(answered("a\n").code, 0);
  EXPECT_THAT(content_of(work.tree / "run.sh"), HasSubstr("torchrun"));
}

TEST(Fix, PrintsOneDiffOfAllThatWouldBeWritten) {
  Work work;
  const ProgramEnd diff = work.fix({"--diff", "--unsafe", work.path()});
  work.tree.write("all.diff", diff.out);

  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_EQ(content_of(work.tree / "run.sh"), kRun) << "nothing is written";
  if (run_program({"sh", "-c", "command -v patch"}).code != 0)
    GTEST_SKIP() << "patch is not installed here";
  const ProgramEnd patched =
      run_program({"sh", "-c", "cd " + work.path() + " && patch -p1 < all.diff"});
  EXPECT_EQ(patched.code, 0) << patched.out << patched.err;
  const std::string by_patch = content_of(work.tree / "train.py");
  work.tree.write("train.py", kTrain);
  work.tree.write("run.sh", kRun);
  EXPECT_EQ(work.fix({"--apply", "--unsafe", work.path()}).code, 0);
  EXPECT_EQ(content_of(work.tree / "train.py"), by_patch);
}

TEST(Fix, PatchesWhatComesThroughStandardInput) {
  Work work;
  const auto through = [&](const std::string& arguments) {
    return run_program({"/bin/sh", "-c",
                        "cd '" + work.path() + "' && '" + testing::lockstep_program() + "' fix - " +
                            arguments + " < train.py"});
  };
  const ProgramEnd patched = through(
      "--stdin-filename train.py --select X702 --apply --unsafe --assume transformers=4.57.0");
  EXPECT_EQ(patched.code, 0);
  EXPECT_THAT(patched.out, HasSubstr("    eval_strategy=\"no\","));
  EXPECT_THAT(patched.out, HasSubstr("trainer.train()\n")) << "the whole text";
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain) << "the file stays as it is";

  EXPECT_THAT(through("--select X702 --diff --unsafe --assume transformers=4.57.0").out,
              HasSubstr("+++ b/stdin.py"));
  EXPECT_EQ(through("--stdin-filename notes.txt").code, 2);
  EXPECT_EQ(through("-i").code, 2);
  EXPECT_EQ(work.fix({work.path(), "--stdin-filename", "a.py"}).code, 2);
}

TEST(Fix, TakesWhatTheProjectSaysInItsPyproject) {
  Work work;
  work.tree.write("pyproject.toml", "[tool.lockstep]\nignore = [\"X702\"]\n");
  EXPECT_THAT(work.fix({work.path()}).out, Not(HasSubstr("X702")));
  EXPECT_THAT(work.fix({"--ignore", "P101", work.path()}).out, HasSubstr("X702"))
      << "what is typed comes first";
  work.tree.write("pyproject.toml",
                  "[tool.lockstep.per-file-ignores]\n\"train.py\" = [\"X7\", \"P\"]\n");
  EXPECT_THAT(work.fix({work.path()}).out, Not(HasSubstr("train.py:")));
  work.tree.write("pyproject.toml", "[tool.lockstep]\nexclude = [\"*.sh\"]\n");
  EXPECT_THAT(work.fix({work.path()}).out, Not(HasSubstr("run.sh")));

  work.tree.write("pyproject.toml", "[tool.lockstep]\nignor = [\"X702\"]\n");
  const ProgramEnd wrong = work.fix({work.path()});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("does not know 'ignor'"));
  work.tree.write("pyproject.toml", "[tool.other\nbroken\n");
  EXPECT_EQ(work.fix({work.path()}).code, 0) << "not our mistake to tell";
}

TEST(Fix, PassesOverWhatGitignoreNames) {
  Work work;
  work.tree.write(".gitignore", "# made\nold/\n*.tmp.sh\n!keep.tmp.sh\n");
  work.tree.write("old/run.sh", kRun);
  work.tree.write("a.tmp.sh", kRun);
  work.tree.write("keep.tmp.sh", kRun);
  const std::string out = work.fix({work.path()}).out;

  EXPECT_THAT(out, Not(HasSubstr("old/run.sh")));
  EXPECT_THAT(out, Not(HasSubstr("a.tmp.sh")));
  EXPECT_THAT(out, HasSubstr("keep.tmp.sh"));
}

TEST(Fix, LeavesTheFindingsOfABaselineOut) {
  Work work;
  const std::string file = (work.state / "known.txt").string();
  EXPECT_EQ(work.fix({work.path(), "--write-baseline", file}).code, 0);
  EXPECT_EQ(work.fix({work.path(), "--baseline", file, "--check"}).code, 0);

  work.tree.write("run.sh", "#!/bin/bash\necho more\nCUDA_VISIBLE_DEVICES=0,1 python train.py\n");
  EXPECT_EQ(work.fix({work.path(), "--baseline", file, "--check"}).code, 0) << "lines move";
  work.tree.write("new.sh", kRun);
  EXPECT_EQ(work.fix({work.path(), "--baseline", file, "--check"}).code, 1);
}

TEST(Fix, SelectsFamiliesAndCountsSafePatchesAlone) {
  Work work;
  EXPECT_THAT(work.fix({"--select", "X", work.path()}).out, HasSubstr("X702"));
  EXPECT_THAT(work.fix({"--select", "D2", work.path()}).out, Not(HasSubstr("X702")));
  EXPECT_EQ(work.fix({"--select", "Z", work.path()}).code, 2);
  EXPECT_EQ(work.fix({"--check", work.path()}).code, 1);
  EXPECT_EQ(work.fix({"--check", "--safe", "--select", "P101", work.path()}).code, 0);
}

TEST(Fix, TellsACodeInACommentThatIsNone) {
  Work work;
  work.tree.write("run.sh", "CUDA_VISIBLE_DEVICES=0 python train.py  # lockstep: ignore[X999]\n");
  EXPECT_THAT(work.fix({work.path()}).out, HasSubstr("ignores 'X999'"));
}

TEST(Fix, SarifHoldsTheReplacementsAndAFingerprint) {
  Work work;
  const Json log = Json::parse(work.fix({"--format", "sarif", work.path()}).out);
  const Json& result = log["runs"][0]["results"][0];

  EXPECT_FALSE(result["partialFingerprints"]["lockstep/v1"].get<std::string>().empty());
  const Json& change = result["fixes"][0]["artifactChanges"][0];
  EXPECT_FALSE(change["replacements"].empty());
  EXPECT_GE(change["replacements"][0]["deletedRegion"]["startLine"].get<int>(), 1);
  EXPECT_FALSE(log["runs"][0]["tool"]["driver"]["rules"][0]["shortDescription"]["text"]
                   .get<std::string>()
                   .empty());
}

TEST(Fix, TheHookAndTheActionOfThisTreeNameOptionsThatThereAre) {
  Work work;
  const std::filesystem::path root = testing::source_tree();
  const std::string hooks = content_of(root / ".pre-commit-hooks.yaml");
  EXPECT_THAT(hooks, HasSubstr("entry: lockstep fix --check\n"));
  EXPECT_THAT(hooks, HasSubstr("entry: lockstep fix --apply\n"));
  EXPECT_EQ(
      work.fix({"--check", (work.tree / "train.py").string(), (work.tree / "run.sh").string()})
          .code,
      1);
  EXPECT_EQ(
      work.fix({"--apply", (work.tree / "train.py").string(), (work.tree / "run.sh").string()})
          .code,
      0)
      << "pre-commit gives names behind --apply";
  const std::string action = content_of(root / "action.yml");
  EXPECT_THAT(action, HasSubstr("--format sarif -o \"$SARIF\""));
  EXPECT_THAT(action, HasSubstr("--format github --check"));
}

TEST(Fix, ReadOnlyFoldersAreLeftAsTheyAre) {
  if (::geteuid() == 0 && run_program({"sh", "-c", "command -v setpriv"}).code != 0)
    GTEST_SKIP() << "root may write anywhere, and setpriv is not here to be another user";
  Work work;
  ::chmod(work.path().c_str(), 0555);
  ::chmod(work.state.path().c_str(), 0777);
  const std::string command = testing::lockstep_program() + " fix --apply --unsafe " + work.path();
  std::vector<std::string> words = {"sh", "-c", command};
  if (::geteuid() == 0)
    words.insert(words.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});

  const ProgramEnd end = run_program(words, {{"XDG_STATE_HOME", (work.state / "state").string()}});
  ::chmod(work.path().c_str(), 0755);

  if (end.code == 126 || end.code == 127)
    GTEST_SKIP() << "another user cannot reach the build folder: " << end.err;
  EXPECT_EQ(end.code, 3) << end.err;
  EXPECT_EQ(content_of(work.tree / "train.py"), kTrain);
}

}  // namespace
}  // namespace lockstep
