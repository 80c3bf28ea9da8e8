#include "model/architecture.hpp"

#include <gtest/gtest.h>

#include "model/gpu_kind.hpp"
#include "model/known_models.hpp"

namespace lockstep {
namespace {

struct Published {
  const char* name;
  double parameters;
};

TEST(KnownModels, WeighWhatTheirMakersSay) {
  for (const auto& [name, published] : {Published{"gpt2", 124.4e6},
                                        {"gpt2-xl", 1557.6e6},
                                        {"llama-8b", 8.03e9},
                                        {"llama-2-7b", 6.74e9},
                                        {"llama-70b", 70.55e9},
                                        {"mistral-7b", 7.24e9},
                                        {"phi-3-mini", 3.82e9},
                                        {"gemma-2b", 2.51e9},
                                        {"qwen2.5-7b", 7.62e9},
                                        {"mixtral-8x7b", 46.7e9},
                                        {"bert-base", 109.5e6},
                                        {"tinyllama-1.1b", 1.10e9},
                                        {"llama-3.2-1b", 1.236e9},
                                        {"gpt-neox-20b", 20.6e9},
                                        {"smollm2-360m", 361.8e6}}) {
    const Architecture* const net = known_model(name);
    ASSERT_NE(net, nullptr) << name;
    EXPECT_NEAR(parameters(*net) / published, 1, 0.01) << name;
  }
}

TEST(KnownModels, AreFoundByTheNamesThatPeopleUse) {
  for (const char* name :
       {"meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3-8B", "LLAMA-8B", "llama_8b"}) {
    const Architecture* const net = known_model(name);
    ASSERT_NE(net, nullptr) << name;
    EXPECT_NEAR(parameters(*net), 8.03e9, 2e7) << name;
  }
  EXPECT_NE(known_model("microsoft/Phi-3-mini-4k-instruct"), nullptr);
  EXPECT_NE(known_model("openai-community/gpt2"), nullptr);
  EXPECT_EQ(known_model("llama-9b"), nullptr);
  EXPECT_EQ(known_model(""), nullptr);
}

TEST(Lora, TrainsASmallShare) {
  const double trained = lora_parameters(*known_model("llama-8b"), 16);

  EXPECT_NEAR(trained, 41.9e6, 0.5e6) << "peft prints 41,943,040 for rank 16 on all linear layers";
}

TEST(UsualArchitecture, HasTheParametersThatWereAskedFor) {
  for (const double wanted : {1e6, 1e8, 3.5e8, 7e9, 1.3e10, 7e10}) {
    Architecture net = usual_architecture(wanted);
    EXPECT_DOUBLE_EQ(parameters(net), wanted);
    net.counted_parameters = 0;
    EXPECT_NEAR(parameters(net) / wanted, 1, 0.25) << wanted << ": the shape goes with it";
  }
}

TEST(GpuKinds, AreFoundByEveryonesNames) {
  EXPECT_EQ(gpu_kind_named("H100-80GB")->name, "H100-80GB");
  EXPECT_EQ(gpu_kind_named("h100")->name, "H100-80GB");
  EXPECT_EQ(gpu_kind_named("a100")->name, "A100-80GB");
  EXPECT_EQ(gpu_kind_named("4090")->name, "RTX-4090-24GB");
  EXPECT_EQ(gpu_kind_named("RTX 4090")->name, "RTX-4090-24GB");
  EXPECT_EQ(gpu_kind_named("H101"), nullptr);

  EXPECT_EQ(gpu_kind_of("NVIDIA H100 80GB HBM3", {})->name, "H100-80GB");
  EXPECT_EQ(gpu_kind_of("NVIDIA H100 PCIe", {})->name, "H100-PCIe-80GB");
  EXPECT_EQ(gpu_kind_of("NVIDIA A10G", {})->name, "A10G-24GB");
  EXPECT_EQ(gpu_kind_of("NVIDIA A100-SXM-80GB", 85e9)->name, "A100-80GB");
  EXPECT_EQ(gpu_kind_of("Tesla V100-PCIE-16GB", 17e9)->name, "V100-16GB");
  EXPECT_EQ(gpu_kind_of("lockstep virtual GPU", {})->name, "virtual");
  EXPECT_EQ(gpu_kind_of("Some Other GPU", 24e9), nullptr);
  EXPECT_EQ(gpu_kind_with_memory(24e9 * 1.07).has_bf16, true);
}

}  // namespace
}  // namespace lockstep
