#include "base/redact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

constexpr const char* kHidden = "\xE2\x80\xA6";

TEST(Redact, HidesTheValueAfterASecretOption) {
  EXPECT_THAT(
      redact_command({"python", "train.py", "--hub-token", "abc", "--api_key=xyz", "--lr", "0.1"}),
      ElementsAre("python", "train.py", "--hub-token", kHidden, std::string("--api_key=") + kHidden,
                  "--lr", "0.1"));
}

TEST(Redact, KnowsSecretNamesInAnyCase) {
  EXPECT_THAT(redact_command({"x", "--PASSWORD", "p", "--ClientSecret=s"}),
              ElementsAre("x", "--PASSWORD", kHidden, std::string("--ClientSecret=") + kHidden));
}

TEST(Redact, HidesWordsThatLookLikeTokens) {
  EXPECT_THAT(redact_command({"x", "hf_abcdef", "sk-12345", "ghp_zz", "AKIA999"}),
              ElementsAre("x", kHidden, kHidden, kHidden, kHidden));
}

TEST(Redact, FindsTokensInsideAssignmentsAndAddresses) {
  EXPECT_THAT(redact_command({"env", "X=hf_abc", "https://hf_abc@host/x"}),
              ElementsAre("env", std::string("X=") + kHidden,
                          std::string("https://") + kHidden + "@host/x"));
}

TEST(Redact, LooksIntoShellLines) {
  EXPECT_THAT(redact_command({"bash", "-c", "HF_TOKEN=abc python t.py --wandb-key k --lr 1"}),
              ElementsAre("bash", "-c",
                          std::string("HF_TOKEN=") + kHidden + " python t.py --wandb-key " +
                              kHidden + " --lr 1"));
}

TEST(Redact, HidesSecretsWithBlanksWhole) {
  EXPECT_THAT(redact_command({"x", "--password=correct horse battery"}),
              ElementsAre("x", std::string("--password=") + kHidden));
  EXPECT_THAT(
      redact_command({"sh", "-lc", "t --password 'correct horse' PASSWORD=\"a b\" --lr 1"}),
      ElementsAre("sh", "-lc",
                  std::string("t --password ") + kHidden + " PASSWORD=" + kHidden + " --lr 1"));
}

TEST(Redact, FindsSecretsBehindOtherOptions) {
  EXPECT_THAT(redact_command({"x", "--env=WANDB_API_KEY=abc", "--export=ALL,HF_TOKEN=abc"}),
              ElementsAre("x", std::string("--env=WANDB_API_KEY=") + kHidden,
                          std::string("--export=ALL,HF_TOKEN=") + kHidden));
  EXPECT_THAT(redact_command({"train.py", "-c", "--api-key", "abc"}),
              ElementsAre("train.py", "-c", "--api-key", kHidden))
      << "a short option that ends in c need not be a shell's";
}

TEST(Redact, LeavesOrdinaryCommandsAlone) {
  const std::vector<std::string> command = {"/opt/keys/python", "train.py", "/data/hf_cache/model",
                                            "--epochs",         "3",        "-k"};

  EXPECT_EQ(redact_command(command), command);
}

TEST(Redact, AnOptionWithoutAValueHidesNothingElse) {
  EXPECT_THAT(redact_command({"x", "--use-token", "--lr", "1"}),
              ElementsAre("x", "--use-token", "--lr", "1"));
  EXPECT_THAT(redact_command({"x", "--token"}), ElementsAre("x", "--token"));
}

}  // namespace
}  // namespace lockstep
