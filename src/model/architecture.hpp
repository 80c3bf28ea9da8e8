// A transformer by its numbers, and what it weighs.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Architecture {
  std::string name;
  // "gpt2", "llama" …: decides how much forward keeps; empty: not known
  std::string family;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;  // channels
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t feed_forward = 0;
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  // a learnt table; 0: none
  std::int64_t longest = 0;    // tokens of a sequence it was made for
  std::int64_t experts = 1;
  std::int64_t experts_at_work = 1;  // for one token
  bool gated = false;                // three matrices in the feed-forward part, not two
  bool tied = false;                 // one table for words in and out
  bool biases = false;
  // where they were counted (a file's header) or said; 0: from the shape
  double counted_parameters = 0;

  bool operator==(const Architecture&) const = default;
};

double attention_parameters(const Architecture& net);     // of a layer
double feed_forward_parameters(const Architecture& net);  // of a layer, all experts
double layer_parameters(const Architecture& net);
double table_parameters(const Architecture& net);  // words in, words out, positions
double parameters(const Architecture& net);
// Those that multiply a token: no table that is only looked up, only the experts at work.
double multiplied_parameters(const Architecture& net);
// LoRA's matrices of this rank on every linear layer.
double lora_parameters(const Architecture& net, std::int64_t rank);

// A net of which only the size is known, in the proportions that published ones of that size have.
Architecture usual_architecture(double parameters);

}  // namespace lockstep
