#include "plan/read_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(Config, OfLlamaGivesItsParameters) {
  const auto net = model_from_config(
      R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
    "intermediate_size":14336,"vocab_size":128256,"max_position_embeddings":131072,"tie_word_embeddings":false,"hidden_act":"silu"})",
      "llama");

  ASSERT_TRUE(net);
  EXPECT_NEAR(parameters(*net), 8.03e9, 1e7);
  EXPECT_EQ(net->longest, 131072);
}

TEST(Config, OfGpt2HasOtherNames) {
  const auto net = model_from_config(
      R"({"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"n_positions":1024,"vocab_size":50257})",
      "gpt2");

  ASSERT_TRUE(net);
  EXPECT_NEAR(parameters(*net), 124.4e6, 1e5);
}

TEST(Config, OfAModelOfSeveralPartsIsThatOfItsText) {
  const auto net = model_from_config(
      R"({"model_type":"llava","text_config":{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":11008,"vocab_size":32000}})",
      "llava");

  ASSERT_TRUE(net);
  EXPECT_NEAR(parameters(*net), 6.74e9, 2e7);
}

TEST(Config, OfEncoderAndDecoderHasBoth) {
  const auto net = model_from_config(
      R"({"model_type":"t5","d_model":768,"num_layers":12,"num_decoder_layers":12,"num_heads":12,"d_ff":3072,"d_kv":64,"vocab_size":32128,"is_encoder_decoder":true})",
      "t5-base");

  ASSERT_TRUE(net);
  EXPECT_NEAR(parameters(*net), 223e6, 2e6);
  EXPECT_EQ(net->layers, 24);
}

TEST(Config, WithoutTheNeededFieldsSaysWhich) {
  const auto net = model_from_config(R"({"model_type":"llama","hidden_size":4096})", "broken");

  ASSERT_FALSE(net);
  EXPECT_THAT(net.error().what, HasSubstr("num_hidden_layers, num_attention_heads"));
  EXPECT_THAT(net.error().next, HasSubstr("--params"));
  for (const char* text :
       {"", "[]", "{", "null",
        R"({"hidden_size":-4,"num_hidden_layers":"x","num_attention_heads":1e99})"})
    EXPECT_FALSE(model_from_config(text, "x")) << text;
}

TEST(Safetensors, AreCountedByTheirHeader) {
  const auto net = model_from_safetensors(
      R"({"__metadata__":{"format":"pt"},"model.embed_tokens.weight":{"dtype":"BF16","shape":[1000,64],"data_offsets":[0,1]},
    "model.layers.0.mlp.weight":{"dtype":"BF16","shape":[256,64],"data_offsets":[0,1]},"model.layers.1.mlp.weight":{"dtype":"BF16","shape":[256,64],"data_offsets":[0,1]}})",
      "m");

  ASSERT_TRUE(net);
  EXPECT_DOUBLE_EQ(parameters(*net), 1000 * 64 + 2 * 256 * 64);
  EXPECT_EQ(net->layers, 2);
  EXPECT_EQ(net->hidden, 64);
  EXPECT_FALSE(model_from_safetensors("{}", "m"));
  EXPECT_FALSE(model_from_safetensors("nonsense", "m"));
}

TEST(Models, AreReadFromFilesByTheirContent) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path place = folder.path();
  std::ofstream(place / "config.json")
      << R"({"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"vocab_size":50257,"n_positions":1024})";
  const std::string header =
      R"({"wte.weight":{"dtype":"F32","shape":[100,8],"data_offsets":[0,3200]},"h.0.w":{"dtype":"F32","shape":[8,8],"data_offsets":[3200,3456]}})";
  std::ofstream weights(place / "anything.bin", std::ios::binary);
  const std::uint64_t length = header.size();
  for (int i = 0; i < 8; ++i) weights.put(static_cast<char>(length >> (8 * i) & 0xff));
  weights << header << std::string(3456, '\0');
  weights.close();

  EXPECT_TRUE(read_model(place.string()));
  EXPECT_TRUE(read_model((place / "config.json").string()));
  const auto counted = read_model((place / "anything.bin").string());
  ASSERT_TRUE(counted);
  EXPECT_DOUBLE_EQ(parameters(*counted), 864);
  EXPECT_FALSE(read_model((place / "nothing.json").string()));
}

TEST(Models, ThatAreNotKnownNameTheNearest) {
  const auto net = read_model("lama-8b");

  ASSERT_FALSE(net);
  EXPECT_THAT(net.error().next, HasSubstr("llama-8b"));
}

}  // namespace
}  // namespace lockstep
