#include "fix/rules/loops/loader_proofs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace lockstep {
namespace {

// Words that may bring a tensor onto a GPU, or one that was saved from there.
constexpr std::array<std::string_view, 7> kMayLieOnAGpu = {
    "cuda", "device", ".to(", "torch.load", "map_location", "gpu", "dlpack"};

bool may_lie_on_a_gpu(std::string_view code) { return holds_any(lower_case(code), kMayLieOnAGpu); }

bool any_file_says(const RuleInput& input, const ScriptFacts& script,
                   std::initializer_list<std::string_view> words) {
  const auto files = files_of(script);
  return std::ranges::any_of(files,
                             [&](FileId file) { return holds_any(text_of(input, file), words); });
}

// torch.utils.data's own, not a loader of the same name.
bool is_of_torch(const RuleInput& input, const CallAt& loader) {
  const std::string_view name = loader.call->full_name;
  return (name == "torch.utils.data.DataLoader" ||
          name == "torch.utils.data.dataloader.DataLoader") &&
         text_of(input, loader.file).find("torch_geometric") == std::string_view::npos;
}

// Of torchvision: each gives a picture and a number, as its transform makes them.
bool is_known_dataset(const PythonCall& made) {
  static constexpr std::array<std::string_view, 10> kPictures = {
      "CIFAR10",      "CIFAR100", "ImageFolder", "ImageNet", "MNIST",
      "FashionMNIST", "STL10",    "SVHN",        "Food101",  "Places365"};
  return made.full_name.starts_with("torchvision.datasets.") &&
         std::ranges::find(kPictures, made.last_name()) != kPictures.end();
}

// A Dataset of the project that inherits from nothing else.
bool is_plain_dataset(Node of_class) {
  const std::string_view parents = of_class.field("superclasses").text();
  const bool has_items = std::ranges::any_of(
      of_class.descendants("function_definition"),
      [](const Node& function) { return function.field("name").text() == "__getitem__"; });
  return has_items && (parents == "(Dataset)" || parents == "(data.Dataset)" ||
                       parents == "(torch.utils.data.Dataset)");
}

// Whatever a dataset is given: arrays, transforms, paths.
bool is_given_host_things(const ScriptFacts& script, const Origin& origin, const PythonCall& made) {
  return std::ranges::all_of(made.arguments, [&](const PythonArgument& argument) {
    if (may_lie_on_a_gpu(argument.value.text())) return false;
    const auto ingredients = ingredients_of(script, origin.file, argument.value);
    return std::ranges::none_of(ingredients, [](const Origin& ingredient) {
      return may_lie_on_a_gpu(ingredient.expression.text());
    });
  });
}

}  // namespace

std::string proof_of_host_batches(const RuleInput& input, const ScriptFacts& script,
                                  const CallAt& loader) {
  if (!is_of_torch(input, loader) || loader.call->has_splat ||
      loader.call->argument("collate_fn") != nullptr || loader.call->positional(6) != nullptr ||
      any_file_says(input, script, {"set_default_device", "set_default_tensor_type"}))
    return "";
  const PythonArgument* const generator = loader.call->argument("generator");
  if (generator != nullptr && may_lie_on_a_gpu(generator->value.text())) return "";
  const Origins origins = script.origins->of(loader.file, dataset_of(*loader.call));
  if (!origins.complete || origins.all.empty()) return "";
  std::string names;
  for (const Origin& origin : origins.all) {
    const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
    if (made == nullptr || made->has_splat || !is_given_host_things(script, origin, *made))
      return "";
    const Node of_class = class_named(input, script, made->last_name());
    const bool is_own =
        of_class && is_plain_dataset(of_class) && !may_lie_on_a_gpu(of_class.text());
    if (!is_own && (of_class || !is_known_dataset(*made))) return "";
    if (names.find(made->last_name()) == std::string::npos)
      names += fmt::format("{}{}", names.empty() ? "" : " and ", made->last_name());
  }
  return fmt::format("{} makes samples on the host, and PyTorch's own function puts them together",
                     names);
}

bool copies_are_the_last_use(const RuleInput& input, const ScriptFacts& script,
                             const TrainingLoop& loop) {
  if (any_file_says(input, script, {"cuda.Stream(", "cuda.stream(", "CUDAGraph", "cuda.graph("}))
    return false;
  const auto copies = waiting_copies(input, script, loop);
  return !copies.empty() && std::ranges::all_of(copies, [&](const PythonCall* copy) {
    const std::string_view source = copy->node.field("function").field("object").text();
    const Node statement = statement_of(copy->node);
    // inputs = inputs.to(device); inputs, labels = inputs.to(device), labels.to(device)
    const Node assignment = statement.is("expression_statement") ? statement.child(0) : Node();
    if (!assignment.is("assignment")) return false;
    const Node left = assignment.field("left");
    const Node right = assignment.field("right");
    if (right == copy->node) return left.text() == source;
    const auto targets = left.children();
    const auto values = right.children();
    for (std::size_t i = 0; i < values.size() && i < targets.size(); ++i)
      if (values[i] == copy->node) return targets[i].text() == source;
    return false;
  });
}

}  // namespace lockstep
