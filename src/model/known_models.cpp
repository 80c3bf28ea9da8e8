#include "model/known_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep {
namespace {

// From the config.json of each. Of a family the shortest name means the newest shape of that size.
struct Row {
  const char* name;
  const char* also;  // another name, or nothing
  Architecture net;
};

Architecture gpt2(std::int64_t layers, std::int64_t heads, std::int64_t hidden) {
  return {.family = "gpt2",
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .key_value_heads = heads,
          .head_width = hidden / heads,
          .feed_forward = 4 * hidden,
          .vocabulary = 50257,
          .positions = 1024,
          .longest = 1024,
          .tied = true,
          .biases = true};
}

struct Gated {
  const char* family;
  std::int64_t layers, hidden, heads, key_value_heads, feed_forward, vocabulary, longest;
  std::int64_t head_width = 0;
  bool tied = false;
};
Architecture gated(const Gated& net) {
  return {.family = net.family,
          .layers = net.layers,
          .hidden = net.hidden,
          .heads = net.heads,
          .key_value_heads = net.key_value_heads,
          .head_width = net.head_width > 0 ? net.head_width : net.hidden / net.heads,
          .feed_forward = net.feed_forward,
          .vocabulary = net.vocabulary,
          .longest = net.longest,
          .gated = true,
          .tied = net.tied};
}

Architecture bert(std::int64_t layers, std::int64_t heads, std::int64_t hidden,
                  std::int64_t vocabulary) {
  return {.family = "bert",
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .key_value_heads = heads,
          .head_width = hidden / heads,
          .feed_forward = 4 * hidden,
          .vocabulary = vocabulary,
          .positions = 512,
          .longest = 512,
          .tied = true,
          .biases = true};
}

Architecture mixtral(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                     std::int64_t feed_forward) {
  Architecture net = gated({"llama", layers, hidden, heads, 8, feed_forward, 32000, 32768});
  net.experts = 8;
  net.experts_at_work = 2;
  return net;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"gpt2", "gpt2-124m", gpt2(12, 12, 768)},
      {"gpt2-medium", nullptr, gpt2(24, 16, 1024)},
      {"gpt2-large", nullptr, gpt2(36, 20, 1280)},
      {"gpt2-xl", "gpt2-1.5b", gpt2(48, 25, 1600)},
      {"distilgpt2", nullptr, gpt2(6, 12, 768)},
      {"bert-base", "bert-base-uncased", bert(12, 12, 768, 30522)},
      {"bert-large", "bert-large-uncased", bert(24, 16, 1024, 30522)},
      {"roberta-base", nullptr, bert(12, 12, 768, 50265)},
      {"roberta-large", nullptr, bert(24, 16, 1024, 50265)},
      {"tinyllama-1.1b", nullptr, gated({"llama", 22, 2048, 32, 4, 5632, 32000, 2048})},
      {"llama-1b", "llama-3.2-1b", gated({"llama", 16, 2048, 32, 8, 8192, 128256, 8192, 64, true})},
      {"llama-3b", "llama-3.2-3b",
       gated({"llama", 28, 3072, 24, 8, 8192, 128256, 8192, 128, true})},
      {"llama-7b", "llama-2-7b", gated({"llama", 32, 4096, 32, 32, 11008, 32000, 4096})},
      {"llama-8b", "llama-3.1-8b", gated({"llama", 32, 4096, 32, 8, 14336, 128256, 8192})},
      {"llama-13b", "llama-2-13b", gated({"llama", 40, 5120, 40, 40, 13824, 32000, 4096})},
      {"llama-70b", "llama-3.1-70b", gated({"llama", 80, 8192, 64, 8, 28672, 128256, 8192})},
      {"llama-3-8b", "llama-3.0-8b", gated({"llama", 32, 4096, 32, 8, 14336, 128256, 8192})},
      {"llama-3-70b", "llama-3.3-70b", gated({"llama", 80, 8192, 64, 8, 28672, 128256, 8192})},
      {"llama-405b", "llama-3.1-405b", gated({"llama", 126, 16384, 128, 8, 53248, 128256, 8192})},
      {"mistral-7b", nullptr, gated({"llama", 32, 4096, 32, 8, 14336, 32000, 8192})},
      {"mixtral-8x7b", nullptr, mixtral(32, 4096, 32, 14336)},
      {"phi-2",
       nullptr,
       {.family = "gpt2",
        .layers = 32,
        .hidden = 2560,
        .heads = 32,
        .key_value_heads = 32,
        .head_width = 80,
        .feed_forward = 10240,
        .vocabulary = 51200,
        .longest = 2048,
        .biases = true}},
      {"phi-3-mini", "phi-3.5-mini", gated({"llama", 32, 3072, 32, 32, 8192, 32064, 4096})},
      {"phi-3-medium", nullptr, gated({"llama", 40, 5120, 40, 10, 17920, 32064, 4096})},
      {"gemma-2b", nullptr, gated({"gemma", 18, 2048, 8, 1, 16384, 256000, 8192, 256, true})},
      {"gemma-7b", nullptr, gated({"gemma", 28, 3072, 16, 16, 24576, 256000, 8192, 256, true})},
      {"gemma-2-9b", nullptr, gated({"gemma", 42, 3584, 16, 8, 14336, 256000, 8192, 256, true})},
      {"qwen2.5-0.5b", nullptr, gated({"qwen", 24, 896, 14, 2, 4864, 151936, 8192, 64, true})},
      {"qwen2.5-1.5b", nullptr, gated({"qwen", 28, 1536, 12, 2, 8960, 151936, 8192, 128, true})},
      {"qwen2.5-3b", nullptr, gated({"qwen", 36, 2048, 16, 2, 11008, 151936, 8192, 128, true})},
      {"qwen2.5-7b", "qwen-7b", gated({"qwen", 28, 3584, 28, 4, 18944, 152064, 8192, 128})},
      {"qwen2.5-14b", nullptr, gated({"qwen", 48, 5120, 40, 8, 13824, 152064, 8192, 128})},
      {"qwen2.5-32b", nullptr, gated({"qwen", 64, 5120, 40, 8, 27648, 152064, 8192, 128})},
      {"qwen2.5-72b", nullptr, gated({"qwen", 80, 8192, 64, 8, 29568, 152064, 8192, 128})},
      {"qwen3-4b", nullptr, gated({"qwen", 36, 2560, 32, 8, 9728, 151936, 8192, 128, true})},
      {"qwen3-8b", nullptr, gated({"qwen", 36, 4096, 32, 8, 12288, 151936, 8192, 128})},
      {"smollm2-360m", nullptr, gated({"smollm", 32, 960, 15, 5, 2560, 49152, 8192, 64, true})},
      {"smollm2-1.7b", nullptr, gated({"smollm", 24, 2048, 32, 32, 8192, 49152, 8192, 64, true})},
      {"gpt-j-6b",
       nullptr,
       {.family = "gpt2",
        .layers = 28,
        .hidden = 4096,
        .heads = 16,
        .key_value_heads = 16,
        .head_width = 256,
        .feed_forward = 16384,
        .vocabulary = 50400,
        .longest = 2048}},
      {"gpt-neox-20b",
       nullptr,
       {.family = "gpt2",
        .layers = 44,
        .hidden = 6144,
        .heads = 64,
        .key_value_heads = 64,
        .head_width = 96,
        .feed_forward = 24576,
        .vocabulary = 50432,
        .longest = 2048,
        .biases = true}},
  };
  return kRows;
}

// Lower case, without the owner, and without words that change no shape.
std::string plain_name(std::string_view name) {
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  std::string plain;
  for (const char c : name)
    plain +=
        c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (plain.starts_with("meta-")) plain.erase(0, 5);
  for (const std::string_view word :
       {"-instruct", "-chat", "-base", "-hf", "-it", "-4k", "-8k", "-128k", "-v0.1", "-v0.2",
        "-v0.3", "-v1.0", "-uncased", "-cased", "-pt"})
    for (auto at = plain.find(word); at != std::string::npos; at = plain.find(word)) {
      const std::size_t end = at + word.size();
      if (end < plain.size() && plain[end] != '-') break;  // "-item" is not "-it"
      plain.erase(at, word.size());
    }
  return plain;
}

std::vector<Architecture> named_models() {
  std::vector<Architecture> nets;
  for (const Row& row : rows()) {
    nets.push_back(row.net);
    nets.back().name = row.name;
  }
  return nets;
}

}  // namespace

const Architecture* known_model(std::string_view name) {
  static const std::vector<Architecture> kNets = named_models();
  const std::string asked = plain_name(name);
  for (std::size_t i = 0; i < kNets.size(); ++i)
    for (const char* known : {rows()[i].name, rows()[i].also})
      if (known != nullptr && (asked == known || asked == plain_name(known))) return &kNets[i];
  return nullptr;
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  return names;
}

}  // namespace lockstep
