#include "plan/read_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"
#include "model/known_models.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kLargestConfig = std::size_t{16} << 20U;
// of layers, channels, words: products of two stay whole numbers
constexpr double kLargestNumber = 1e7;
constexpr std::uint64_t kLargestHeader = std::uint64_t{100} << 20U;  // safetensors' own limit

std::optional<std::int64_t> number(const json& config, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = config.find(name); found != config.end() && found->is_number() &&
                                              found->get<double>() >= 1 &&
                                              found->get<double>() < kLargestNumber)
      return static_cast<std::int64_t>(found->get<double>());
  return std::nullopt;
}
std::optional<bool> truth(const json& config, const char* name) {
  const auto found = config.find(name);
  return found != config.end() && found->is_boolean() ? std::optional(found->get<bool>())
                                                      : std::nullopt;
}
std::string word(const json& config, const char* name) {
  const auto found = config.find(name);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

// transformers' model_type, as far as it decides a shape or a factor.
struct FamilyRow {
  const char* type;
  const char* family;
  bool gated;
  bool biases;
  bool learns_positions;
  bool tied;
};
constexpr FamilyRow kFamilies[] = {
    {"gpt2", "gpt2", false, true, true, true},
    {"gpt_neo", "gpt2", false, true, true, true},
    {"gptj", "gpt2", false, false, false, false},
    {"gpt_neox", "gpt2", false, true, false, false},
    {"opt", "gpt2", false, true, true, true},
    {"bloom", "gpt2", false, true, false, true},
    {"phi", "gpt2", false, true, false, false},
    {"falcon", "gpt2", false, false, false, true},
    {"bert", "bert", false, true, true, true},
    {"roberta", "bert", false, true, true, true},
    {"distilbert", "bert", false, true, true, true},
    {"electra", "bert", false, true, true, true},
    {"llama", "llama", true, false, false, false},
    {"mistral", "llama", true, false, false, false},
    {"mixtral", "llama", true, false, false, false},
    {"phi3", "llama", true, false, false, false},
    {"qwen2", "qwen", true, false, false, false},
    {"qwen3", "qwen", true, false, false, false},
    {"gemma", "gemma", true, false, false, true},
    {"gemma2", "gemma", true, false, false, true},
    {"vit", "bert", false, true, true, true},
    {"t5", "bert", false, false, false, true},
};

Error not_understood(const std::string& name, const std::string& what) {
  return Error{fmt::format("{}: {}", printable(name), what),
               "give a config.json of a transformer (hidden_size, num_hidden_layers, "
               "num_attention_heads, vocab_size), or --params 7B"};
}

Result<std::string> read_whole(const std::string& path) {
  const auto text = read_small_file(path, kLargestConfig);
  if (!text)
    return Error{fmt::format("{}: {}", printable(path), std::strerror(errno)),
                 "give a model's name, its config.json, a .safetensors file, or --params 7B"};
  return *text;
}

// The JSON at the head of a safetensors file; empty: it is none.
std::string safetensors_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char raw[8] = {};
  if (!file.read(reinterpret_cast<char*>(raw), sizeof raw)) return "";
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8U | raw[i];
  std::error_code problem;
  if (length < 2 || length > kLargestHeader || length > fs::file_size(path, problem)) return "";
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length)) || header.front() != '{')
    return "";
  return header;
}

// A tensor's place in a layer: "model.layers.12.mlp…" is 12.
std::optional<std::int64_t> layer_of(std::string_view name) {
  for (const std::string_view part : split(name, '.'))
    if (const auto index = parse_integer(part)) return index;
  return std::nullopt;
}

}  // namespace

Result<Architecture> model_from_config(std::string_view text, const std::string& name) {
  const json config = json::parse(text, nullptr, false);
  if (!config.is_object()) return not_understood(name, "is no JSON object");
  // Models of several parts keep the text part's numbers in a part of their own.
  const json* shape = &config;
  for (const char* part : {"text_config", "llm_config", "language_config"})
    if (const auto inner = config.find(part);
        inner != config.end() && inner->is_object() && number(*inner, {"hidden_size"}))
      shape = &*inner;
  Architecture net;
  net.name = name;
  const std::string type = word(*shape, "model_type");
  const FamilyRow* family = nullptr;
  for (const FamilyRow& row : kFamilies)
    if (type == row.type) family = &row;
  const auto hidden = number(*shape, {"hidden_size", "n_embd", "d_model", "dim"});
  const auto layers = number(*shape, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  const auto heads = number(*shape, {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  std::vector<std::string> missing;
  if (!hidden) missing.emplace_back("hidden_size");
  if (!layers) missing.emplace_back("num_hidden_layers");
  if (!heads) missing.emplace_back("num_attention_heads");
  if (!missing.empty()) return not_understood(name, fmt::format("has no {}", join(missing, ", ")));
  net.family = family != nullptr ? family->family : "";
  net.hidden = *hidden;
  net.layers = *layers;
  net.heads = *heads;
  net.key_value_heads =
      number(*shape, {"num_key_value_heads", "num_kv_heads", "multi_query_group_num"})
          .value_or(truth(*shape, "multi_query").value_or(false) ? 1 : net.heads);
  net.head_width = number(*shape, {"head_dim", "d_kv"})
                       .value_or(std::max<std::int64_t>(1, net.hidden / net.heads));
  net.feed_forward = number(*shape, {"intermediate_size", "n_inner", "ffn_dim", "hidden_dim",
                                     "d_ff", "encoder_ffn_dim"})
                         .value_or(4 * net.hidden);
  net.vocabulary = number(*shape, {"vocab_size", "num_labels"}).value_or(1000);
  net.longest =
      number(*shape, {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"})
          .value_or(1024);
  const std::string activation = word(*shape, "hidden_act");
  net.gated = family != nullptr ? family->gated : activation == "silu" || activation == "swiglu";
  net.biases = family != nullptr ? family->biases : !net.gated;
  net.tied =
      truth(*shape, "tie_word_embeddings")
          .value_or(
              truth(config, "tie_word_embeddings").value_or(family != nullptr && family->tied));
  net.positions = family != nullptr && family->learns_positions ? net.longest : 0;
  net.experts =
      number(*shape, {"num_local_experts", "n_routed_experts", "num_experts"}).value_or(1);
  net.experts_at_work =
      std::min(net.experts, number(*shape, {"num_experts_per_tok"}).value_or(net.experts));
  // Encoder and decoder: the decoder's layers have a second attention.
  if (truth(config, "is_encoder_decoder").value_or(false)) {
    const std::int64_t decoder =
        number(*shape, {"num_decoder_layers", "decoder_layers"}).value_or(net.layers);
    if (const auto encoder = number(*shape, {"encoder_layers"})) net.layers = *encoder;
    net.counted_parameters =
        parameters(net) +
        static_cast<double>(decoder) * (layer_parameters(net) + attention_parameters(net));
    net.layers += decoder;
  }
  if (const auto expert_width = number(*shape, {"moe_intermediate_size"});
      expert_width && net.experts > 1)
    net.feed_forward = *expert_width;
  return net;
}

Result<Architecture> model_from_safetensors(std::string_view header_text, const std::string& name) {
  const json header = json::parse(header_text, nullptr, false);
  if (!header.is_object()) return not_understood(name, "has no header of safetensors");
  double total = 0;
  std::set<std::int64_t> layers;
  double largest_table = 0;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  for (const auto& [key, tensor] : header.items()) {
    if (key == "__metadata__" || !tensor.is_object()) continue;
    const auto shape = tensor.find("shape");
    if (shape == tensor.end() || !shape->is_array()) continue;
    double count = 1;
    for (const json& length : *shape)
      count *= length.is_number() ? std::max(0.0, length.get<double>()) : 1;
    total += count;
    if (const auto layer = layer_of(key)) layers.insert(*layer);
    // The largest matrix outside of the layers is the words' table.
    else if (shape->size() == 2 && count > largest_table && (*shape)[0].is_number() &&
             (*shape)[1].is_number() && (*shape)[0].get<double>() < kLargestNumber &&
             (*shape)[1].get<double>() < kLargestNumber) {
      largest_table = count;
      vocabulary = static_cast<std::int64_t>((*shape)[0].get<double>());
      hidden = static_cast<std::int64_t>((*shape)[1].get<double>());
    }
  }
  if (total < 1 || total > 1e15) return not_understood(name, "has a header without tensors");
  Architecture net = usual_architecture(total);
  net.name = name;
  if (!layers.empty() && hidden > 0 && vocabulary > 0) {
    net.layers = static_cast<std::int64_t>(layers.size());
    net.hidden = hidden;
    net.vocabulary = vocabulary;
    net.head_width = hidden % 128 == 0 ? 128 : 64;
    net.heads = net.key_value_heads = std::max<std::int64_t>(1, hidden / net.head_width);
    net.feed_forward = 4 * hidden;
  }
  return net;
}

Result<Architecture> read_model(const std::string& name_or_path) {
  std::error_code problem;
  fs::path path = name_or_path;
  if (fs::is_directory(path, problem)) {
    for (const char* file : {"config.json", "model.safetensors", "model.safetensors.index.json"})
      if (fs::exists(path / file, problem)) return read_model((path / file).string());
    return Error{fmt::format("{}: no config.json and no model.safetensors in this folder",
                             printable(name_or_path)),
                 "give a model's own folder, or --params 7B"};
  }
  if (fs::is_regular_file(path, problem)) {
    const std::string folder = fs::absolute(path, problem).parent_path().filename().string();
    const auto named = [&](Result<Architecture> net) {
      if (net)
        net->name =
            path.filename() == "config.json" && !folder.empty() ? folder : path.filename().string();
      return net;
    };
    if (const std::string header = safetensors_header(name_or_path); !header.empty())
      return named(model_from_safetensors(header, name_or_path));
    auto text = TRY(read_whole(name_or_path));
    return named(model_from_config(text, name_or_path));
  }
  if (const Architecture* const known = known_model(name_or_path)) return *known;
  if (name_or_path.find('/') != std::string::npos && name_or_path.ends_with(".json"))
    return Error{fmt::format("{}: no such file", printable(name_or_path)),
                 "give a model's name, its config.json, or --params 7B"};
  const auto names = known_model_names();
  const std::string asked = lower_case(name_or_path.substr(
      name_or_path.rfind('/') == std::string::npos ? 0 : name_or_path.rfind('/') + 1));
  const auto near = nearest(asked, names);
  return usage_error(
      fmt::format("no model '{}' is known", printable(name_or_path)),
      near ? fmt::format("did you mean {}? Or give its config.json, or --params 7B", *near)
           : fmt::format("known: {}; or give its config.json, or --params 7B", join(names, ", ")));
}

}  // namespace lockstep
