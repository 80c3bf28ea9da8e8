#include "model/architecture.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {
namespace {

double real(std::int64_t number) { return static_cast<double>(number); }

double query_width(const Architecture& net) { return real(net.heads * net.head_width); }
double key_value_width(const Architecture& net) {
  return real(net.key_value_heads * net.head_width);
}
double feed_forward_matrices(const Architecture& net) { return net.gated ? 3 : 2; }
double one_feed_forward(const Architecture& net) {
  const double matrices = feed_forward_matrices(net) * real(net.hidden) * real(net.feed_forward);
  return matrices + (net.biases ? real(net.feed_forward + net.hidden) : 0);
}

// What the shape gives, against what was counted.
double correction(const Architecture& net) {
  if (net.counted_parameters <= 0) return 1;
  const double of_shape = table_parameters(net) + real(net.layers) * (attention_parameters(net) +
                                                                      feed_forward_parameters(net));
  return of_shape > 0 ? net.counted_parameters / of_shape : 1;
}

}  // namespace

double attention_parameters(const Architecture& net) {
  const double matrices = real(net.hidden) * (2 * query_width(net) + 2 * key_value_width(net));
  return matrices +
         (net.biases ? query_width(net) + 2 * key_value_width(net) + real(net.hidden) : 0);
}

double feed_forward_parameters(const Architecture& net) {
  const double router = net.experts > 1 ? real(net.hidden * net.experts) : 0;
  return real(net.experts) * one_feed_forward(net) + router;
}

double layer_parameters(const Architecture& net) {
  const double norms = 2 * real(net.hidden) * (net.biases ? 2 : 1);
  return attention_parameters(net) + feed_forward_parameters(net) + norms;
}

double table_parameters(const Architecture& net) {
  const double words = real(net.vocabulary * net.hidden);
  return (net.tied ? 1 : 2) * words + real(net.positions * net.hidden);
}

double parameters(const Architecture& net) {
  if (net.counted_parameters > 0) return net.counted_parameters;
  return table_parameters(net) + real(net.layers) * layer_parameters(net) +
         real(net.hidden) * (net.biases ? 2 : 1);
}

double multiplied_parameters(const Architecture& net) {
  const double words_out = real(net.vocabulary * net.hidden);
  const double experts = feed_forward_parameters(net) -
                         real(net.experts - net.experts_at_work) * one_feed_forward(net);
  return correction(net) * (words_out + real(net.layers) * (attention_parameters(net) + experts));
}

double lora_parameters(const Architecture& net, std::int64_t rank) {
  const double hidden = real(net.hidden);
  const double attention = 2 * (hidden + query_width(net)) + 2 * (hidden + key_value_width(net));
  const double feed_forward =
      feed_forward_matrices(net) * (hidden + real(net.feed_forward)) * real(net.experts);
  return real(rank) * real(net.layers) * (attention + feed_forward);
}

Architecture usual_architecture(double wanted) {
  // Published nets: parameters, layers, channels.
  struct Point {
    double parameters;
    double layers;
    double hidden;
  };
  constexpr std::array kPoints = {Point{1e6, 4, 128},      Point{1.2e8, 12, 768},
                                  Point{3.5e8, 24, 1024},  Point{1.3e9, 24, 2048},
                                  Point{2.7e9, 32, 2560},  Point{6.7e9, 32, 4096},
                                  Point{1.3e10, 40, 5120}, Point{3.2e10, 60, 6656},
                                  Point{7e10, 80, 8192},   Point{1.75e11, 96, 12288}};
  const Point* near = &kPoints.front();
  for (const Point& point : kPoints)
    if (std::abs(std::log(point.parameters / wanted)) <
        std::abs(std::log(near->parameters / wanted)))
      near = &point;
  Architecture net;
  net.layers = static_cast<std::int64_t>(near->layers);
  net.vocabulary = wanted < 2e7 ? 256 : 50304;
  net.tied = wanted < 2e9;
  // 12 h^2 a layer and the tables make up the rest.
  const double tables = (net.tied ? 1 : 2) * real(net.vocabulary);
  const double layers = 12 * near->layers;
  const double hidden = (-tables + std::sqrt(tables * tables + 4 * layers * wanted)) / (2 * layers);
  net.head_width = hidden < 768 ? 32 : hidden < 2048 ? 64 : 128;
  net.heads = net.key_value_heads =
      std::max<std::int64_t>(1, std::llround(hidden / real(net.head_width)));
  net.hidden = net.heads * net.head_width;
  net.feed_forward = 4 * net.hidden;
  net.longest = wanted < 2e9 ? 1024 : 2048;
  net.counted_parameters = wanted;
  return net;
}

}  // namespace lockstep
