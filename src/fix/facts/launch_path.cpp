#include "fix/facts/launch_path.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "fix/python/statements.hpp"
#include "fix/shell/launch_lines.hpp"

namespace lockstep {
namespace {

constexpr int kDeepestValue = 48;  // a text may nest as deep as it likes

std::optional<bool> truth_of(const PathValue& value) {
  if (!value) return std::nullopt;
  if (std::holds_alternative<PythonNone>(*value)) return false;
  if (const bool* const flag = std::get_if<bool>(&*value)) return *flag;
  if (const double* const number = std::get_if<double>(&*value)) return *number != 0;
  return !std::get<std::string>(*value).empty();
}

PathValue known(PathScalar value) { return value; }

PathValue as_number(const PathValue& value) {
  if (const auto number = number_of(value)) return known(*number);
  if (const auto word = word_of(value))
    if (const auto parsed = parse_integer(trim(*word))) return known(static_cast<double>(*parsed));
  return std::nullopt;
}

PathValue computed(std::string_view sign, double left, double right) {
  if (sign == "+") return known(left + right);
  if (sign == "-") return known(left - right);
  if (sign == "*") return known(left * right);
  if (right == 0) return std::nullopt;
  if (sign == "/") return known(left / right);
  if (sign == "//") return known(std::floor(left / right));
  if (sign == "%") return known(left - right * std::floor(left / right));
  return std::nullopt;
}

// All that a statement may give a value to.
void forget_assigned(Node statement, std::map<std::string, PathValue, std::less<>>& names) {
  std::vector<Node> targets = {statement.field("left"), statement.field("alias")};
  for (const char* kind : {"assignment", "augmented_assignment"})
    for (const Node& item : statement.descendants(kind)) targets.push_back(item.field("left"));
  for (const Node& target : targets) {
    if (!target) continue;
    names[std::string(target.text())] = std::nullopt;
    for (const std::string& name : names_in(target)) names[name] = std::nullopt;
  }
}

}  // namespace

std::optional<double> number_of(const PathValue& value) {
  if (!value) return std::nullopt;
  if (const double* const number = std::get_if<double>(&*value)) return *number;
  if (const bool* const flag = std::get_if<bool>(&*value)) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<std::string> word_of(const PathValue& value) {
  const auto* const word = value ? std::get_if<std::string>(&*value) : nullptr;
  return word == nullptr ? std::nullopt : std::optional(*word);
}

PathEvaluation::PathEvaluation(const PythonModule& module, LaunchPath path)
    : module_(module), path_(std::move(path)) {}

PathValue PathEvaluation::value(Node expression) const {
  Names names;
  const Node function = function_around(expression);
  if (function && function_around(function)) return std::nullopt;  // a closure
  run(module_.tree().root(), function ? Node() : expression, names, 0);
  if (function) {
    bind_parameters(function, names);
    run(function.field("body"), expression, names, 0);
  }
  return evaluate(expression, names, 0);
}

// Defaults, what the one call gives, and options of the command line by the same name.
void PathEvaluation::bind_parameters(Node function, Names& names) const {
  const std::string_view name = function.field("name").text();
  const PythonCall* only_call = nullptr;
  std::size_t calls = 0;
  for (const PythonCall& call : module_.calls())
    if (call.callee == name) {
      only_call = &call;
      ++calls;
    }
  std::size_t position = 0;
  for (const Node& parameter : function.field("parameters").children()) {
    const Node named = parameter.field("name")           ? parameter.field("name")
                       : parameter.is("typed_parameter") ? parameter.child(0)
                                                         : parameter;
    const std::string key(named.text());
    PathValue value = evaluate(parameter.field("value"), names, 0);
    if (calls > 1 || (calls == 1 && only_call->has_splat)) value = std::nullopt;
    if (calls == 1)
      if (const PythonArgument* const given = only_call->given(key, position))
        value = evaluate(given->value, names, 0);
    if (const auto option = option_among(path_.arguments, {"--" + key})) {
      const auto number = parse_integer(trim(*option));
      value = number ? known(static_cast<double>(*number)) : known(std::string(trim(*option)));
    }
    names[key] = value;
    ++position;
  }
}

// Whether the goal was met: what stands behind it does not count.
bool PathEvaluation::run(Node block, Node goal, Names& names, int depth) const {
  if (depth > kDeepestValue) return true;
  for (const Node& statement : block.children()) {
    if (goal && statement.from() >= goal.to()) return true;
    const bool holds_goal = goal && statement.contains(goal);
    if (statement.is("function_definition") || statement.is("class_definition") ||
        statement.is("decorated_definition"))
      continue;
    if (statement.is("if_statement")) {
      if (run_if(statement, goal, names, depth + 1)) return true;
    } else if (statement.is("with_statement")) {
      if (run(statement.field("body"), goal, names, depth + 1) || holds_goal) return true;
    } else if (holds_goal) {
      // Within a loop, values of earlier turns are not known.
      if (is_loop(statement)) forget_assigned(statement, names);
      if (is_loop(statement) || statement.is("try_statement"))
        run(statement.field("body"), goal, names, depth + 1);
      return true;
    } else if (statement.is("expression_statement")) {
      for (const Node& part : statement.children())
        if (part.is("assignment") || part.is("augmented_assignment")) assign(part, names);
    } else {
      forget_assigned(statement, names);
    }
  }
  return false;
}

bool PathEvaluation::run_if(Node statement, Node goal, Names& names, int depth) const {
  struct Branch {
    Node condition;  // none: else
    Node block;
  };
  std::vector<Branch> ways = {{statement.field("condition"), statement.field("consequence")}};
  for (const Node& way : statement.fields("alternative"))
    ways.push_back(
        {way.field("condition"), way.field(way.is("else_clause") ? "body" : "consequence")});
  for (const Branch& way : ways)
    if (goal && way.block.contains(goal)) {
      run(way.block, goal, names, depth);
      return true;
    }
  for (const Branch& way : ways) {
    const auto taken =
        way.condition ? truth_of(evaluate(way.condition, names, 0)) : std::optional(true);
    if (!taken) {
      forget_assigned(statement, names);
      return false;
    }
    if (*taken) return run(way.block, goal, names, depth);
  }
  return false;
}

void PathEvaluation::assign(Node statement, Names& names) const {
  const Node left = statement.field("left");
  const Node right = statement.field("right");
  if (!left.is("identifier") && !left.is("attribute")) {
    // a, b = 4, 8
    const auto targets = left.children();
    const auto values = right.children();
    const bool pairwise =
        left.is("pattern_list") && right.is("expression_list") && targets.size() == values.size();
    std::vector<PathValue> results;
    for (const Node& value : values)
      results.push_back(pairwise ? evaluate(value, names, 0) : std::nullopt);
    forget_assigned(statement, names);
    for (std::size_t i = 0; pairwise && i < targets.size(); ++i)
      names[std::string(targets[i].text())] = results[i];
    return;
  }
  PathValue value = evaluate(right, names, 0);
  if (statement.is("augmented_assignment")) {
    std::string_view sign = statement.field("operator").text();
    if (sign.ends_with('=')) sign.remove_suffix(1);
    const auto before = number_of(evaluate(left, names, 0));
    const auto change = number_of(value);
    value = before && change ? computed(sign, *before, *change) : std::nullopt;
  }
  names[std::string(left.text())] = value;
}

// None: it is not set on this path.
PathValue PathEvaluation::environment(std::string_view name) const {
  static constexpr std::array<std::string_view, 2> kRanks = {"RANK", "LOCAL_RANK"};
  static constexpr std::array<std::string_view, 2> kSizes = {"WORLD_SIZE", "LOCAL_WORLD_SIZE"};
  const bool is_rank = std::ranges::find(kRanks, name) != kRanks.end();
  const bool is_size = std::ranges::find(kSizes, name) != kSizes.end();
  if (!is_rank && !is_size) return std::nullopt;
  if (!path_.ranks) return known(PythonNone{});
  return known(is_rank ? std::string("0") : std::to_string(*path_.ranks));
}

PathValue PathEvaluation::call(Node node, const Names& names, int depth) const {
  const std::string_view callee = node.field("function").text();
  const std::string_view last = callee.substr(callee.rfind('.') + 1);
  const auto arguments = node.field("arguments").children();
  const auto given = [&](std::size_t position) {
    return position < arguments.size() ? evaluate(arguments[position], names, depth) : PathValue();
  };
  if (callee.ends_with("environ.get") || last == "getenv") {
    const auto name = arguments.empty() ? std::nullopt : string_value(arguments.front());
    const PathValue set = name ? environment(*name) : PathValue();
    if (!set || !std::holds_alternative<PythonNone>(*set)) return set;
    return arguments.size() > 1 ? given(1) : known(PythonNone{});
  }
  if (callee == "int" || callee == "float") {
    const auto number = number_of(as_number(given(0)));
    if (!number) return std::nullopt;
    return known(callee == "int" ? std::trunc(*number) : *number);
  }
  if (callee == "bool")
    if (const auto truth = truth_of(given(0))) return known(*truth);
  if (callee == "max" || callee == "min") {
    std::optional<double> best;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto number = number_of(given(i));
      if (!number) return std::nullopt;
      best = !best             ? *number
             : callee == "max" ? std::max(*best, *number)
                               : std::min(*best, *number);
    }
    return best ? known(*best) : PathValue();
  }
  if (last == "get_world_size" && path_.ranks) return known(static_cast<double>(*path_.ranks));
  if (last == "device_count" && path_.gpus) return known(static_cast<double>(*path_.gpus));
  if (last == "is_initialized" && !path_.ranks) return known(false);
  return std::nullopt;
}

PathValue PathEvaluation::comparison(Node node, const Names& names, int depth) const {
  const auto sides = node.children();
  if (sides.size() != 2) return std::nullopt;
  const std::string_view sign =
      trim(module_.tree().source().substr(sides[0].to(), sides[1].from() - sides[0].to()));
  if ((sign == "in" || sign == "not in") && sides[1].text().ends_with("environ")) {
    const auto name = string_value(sides[0]);
    const PathValue set = name ? environment(*name) : PathValue();
    if (!set) return std::nullopt;
    return known(std::holds_alternative<PythonNone>(*set) == (sign == "not in"));
  }
  const PathValue left = evaluate(sides[0], names, depth);
  const PathValue right = evaluate(sides[1], names, depth);
  if (!left || !right) return std::nullopt;
  const auto a = number_of(left);
  const auto b = number_of(right);
  const bool same = a && b ? *a == *b : *left == *right;
  if (sign == "==" || sign == "is") return known(same);
  if (sign == "!=" || sign == "is not") return known(!same);
  if (!a || !b) return std::nullopt;
  if (sign == "<") return known(*a < *b);
  if (sign == "<=") return known(*a <= *b);
  if (sign == ">") return known(*a > *b);
  if (sign == ">=") return known(*a >= *b);
  return std::nullopt;
}

PathValue PathEvaluation::evaluate(Node expression, const Names& names, int depth) const {
  if (!expression || depth > kDeepestValue) return std::nullopt;
  if (is_none(expression)) return known(PythonNone{});
  if (const auto flag = bool_value(expression)) return known(*flag);
  if (const auto number = number_value(expression)) return known(*number);
  if (const auto word = string_value(expression)) return known(*word);
  const auto part = [&](std::string_view field) {
    return evaluate(expression.field(field), names, depth + 1);
  };
  if (expression.is("identifier") || expression.is("attribute")) {
    const auto found = names.find(expression.text());
    return found == names.end() ? PathValue() : found->second;
  }
  if (expression.is("parenthesized_expression"))
    return evaluate(expression.child(0), names, depth + 1);
  if (expression.is("call")) return call(expression, names, depth + 1);
  if (expression.is("comparison_operator")) return comparison(expression, names, depth + 1);
  if (expression.is("not_operator")) {
    const auto truth = truth_of(part("argument"));
    return truth ? known(!*truth) : PathValue();
  }
  if (expression.is("unary_operator") && expression.text().starts_with('-')) {
    const auto number = number_of(part("argument"));
    return number ? known(-*number) : PathValue();
  }
  if (expression.is("binary_operator")) {
    const auto left = number_of(part("left"));
    const auto right = number_of(part("right"));
    return left && right ? computed(expression.field("operator").text(), *left, *right)
                         : PathValue();
  }
  if (expression.is("boolean_operator")) {
    const PathValue left = part("left");
    const auto truth = truth_of(left);
    if (!truth) return std::nullopt;
    const bool decided = expression.field("operator").text() == "or" ? *truth : !*truth;
    return decided ? left : part("right");
  }
  if (expression.is("conditional_expression") && expression.children().size() == 3) {
    const auto truth = truth_of(evaluate(expression.child(1), names, depth + 1));
    return truth ? evaluate(expression.child(*truth ? 0 : 2), names, depth + 1) : PathValue();
  }
  if (expression.is("subscript") && expression.field("value").text().ends_with("environ")) {
    const auto name = string_value(expression.field("subscript"));
    const PathValue set = name ? environment(*name) : PathValue();
    return set && std::holds_alternative<PythonNone>(*set) ? PathValue() : set;
  }
  return std::nullopt;
}

}  // namespace lockstep
