// Turns a script of one process into one that torchrun starts once a GPU.
//
// In the order in which the script meets it: join the group and take the rank's own GPU; rank 0
// downloads before the others look; the loader's data is shared out by a DistributedSampler, into
// which the shuffle moves; the model is wrapped right before training starts, when it is where it
// shall be and whatever was loaded into it is in; each epoch is told to the sampler; rank 0 alone
// prints and saves; the group is left. nn.DataParallel splits the batch that it is given, so there
// the batch is divided by the ranks; a plain loop's batch is every rank's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "fix/rules/accumulation.hpp"
#include "fix/rules/conversion/to_ddp.hpp"

namespace lockstep {
namespace {

// What DDP hands through, or has of its own: no `.module` is needed for these.
constexpr std::array<std::string_view, 14> kOfEveryModule = {
    "train", "eval", "parameters", "named_parameters", "zero_grad",      "module", "to",
    "cuda",  "cpu",  "modules",    "named_modules",    "requires_grad_", "apply",  "training"};
constexpr std::string_view kOnRank0 = "if dist.get_rank() == 0:";

std::string grouped(Node value) {
  return value.is("identifier") || value.is("integer") || value.is("attribute") || value.is("call")
             ? std::string(value.text())
             : fmt::format("({})", value.text());
}

class Conversion {
 public:
  Conversion(const RuleInput& input, const ScriptFacts& script, const SingleProcessScript& single)
      : input_(input),
        script_(script),
        single_(single),
        module_(module_of(input, single.file)),
        text_(text_of(input, single.file)),
        also_on_cpu_(holds_any(
            text_, {"is_available", "--cpu", "no_cuda", "no-cuda", "args.cuda", "use_cuda"})) {}

  Converted run() {
    find_start();
    join_the_group();
    for (const PythonCall* const call : single_.parallels) unwrap(*call);
    choose_devices();
    download_once();
    for (const PythonCall* const loader : single_.loaders) share_out(*loader);
    tell_epochs();
    wrap();
    reach_into_the_wrapped();
    sync_once_an_update();
    let_rank_0_speak();
    keep_files_apart();
    show_a_ranks_share();
    leave_the_group();
    if (!objection_.empty()) return {{}, objection_};
    return {in_order(std::move(edits_)), ""};
  }

 private:
  void object(std::string words) {
    if (objection_.empty()) objection_ = std::move(words);
  }
  void add(std::vector<Edit> edits, const char* what, Node where) {
    if (edits.empty())
      object(
          fmt::format("{} cannot be written at {}", what, words_of(input_, single_.file, where)));
    edits_.insert(edits_.end(), edits.begin(), edits.end());
  }

  // Whether a place is met after the group was joined.
  bool is_after_start(Node node) const {
    if (function_around(node)) return true;
    if (single_.main_part) return single_.main_part.contains(node);
    return node.from() >= start_place_;
  }

  // After the imports, also where constants and definitions stand among them: everything that does
  // something comes later.
  void find_start() {
    start_place_ = import_place(module_);
    if (single_.main_part) return;
    bool imports_torch = false;
    for (const Node& statement : module_.tree().root().children()) {
      const Node value =
          statement.is("expression_statement") ? statement.child(0).field("right") : Node();
      const bool constant =
          value && (value.is("string") || value.is("integer") || value.is("float") ||
                    value.is("true") || value.is("false") || value.is("none"));
      const bool import = statement.is("import_statement") ||
                          statement.is("import_from_statement") ||
                          statement.is("future_import_statement");
      const bool harmless =
          constant || import || statement.is("comment") || statement.is("function_definition") ||
          statement.is("class_definition") || statement.is("decorated_definition") ||
          (statement.is("expression_statement") && statement.child(0).is("string"));
      if (!harmless) break;
      if (import) start_place_ = line_end(text_, statement.to());
    }
    for (const PythonImport& import : module_.imports())
      if (import.at_top && import.statement.from() < start_place_ &&
          import.module.starts_with("torch"))
        imports_torch = true;
    if (!imports_torch) object("the script does something before it imports torch");
  }

  void join_the_group() {
    const std::string ending(line_ending_of(text_));
    const std::string step = indent_step(text_);
    std::vector<std::string> lines;
    if (also_on_cpu_)
      lines = {"dist.init_process_group(\"nccl\" if torch.cuda.is_available() else \"gloo\")",
               "if torch.cuda.is_available():",
               step + "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))"};
    else
      lines = {"dist.init_process_group(\"nccl\")",
               "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))"};

    std::string imports;
    const auto has = [&](std::string_view from, std::string_view name, std::string_view alias) {
      return std::ranges::any_of(module_.imports(), [&](const PythonImport& import) {
        return import.at_top && import.statement.from() < start_place_ && import.module == from &&
               import.name == name && import.alias == alias;
      });
    };
    for (const char* taken : {"dist", "DistributedDataParallel", "DistributedSampler"})
      if (!module_.assigned(taken).empty()) object(fmt::format("the name {} is taken", taken));
    if (!can_import(module_, "os", module_.tree().root())) object("the name os is taken");
    if (!has("os", "", "")) imports += "import os" + ending;
    if (!has("torch", "", "")) imports += "import torch" + ending;
    if (!has("torch.distributed", "", "dist"))
      imports += "import torch.distributed as dist" + ending;
    if (!has("torch.nn.parallel", "DistributedDataParallel", ""))
      imports += "from torch.nn.parallel import DistributedDataParallel" + ending;
    if (!has("torch.utils.data.distributed", "DistributedSampler", ""))
      imports += "from torch.utils.data.distributed import DistributedSampler" + ending;
    if (single_.main_part) {
      const auto body = single_.main_part.children();
      const auto first = std::ranges::find_if(
          body, [](const Node& statement) { return !statement.is("comment"); });
      if (first == body.end()) return object("its main part is empty");
      std::string joined;
      for (const std::string& line : lines) joined += (joined.empty() ? "" : "\n") + line;
      add(line_above(text_, *first, joined), "the start", *first);
    } else {
      imports += ending;
      for (const std::string& line : lines) imports += line + ending;
    }
    const std::size_t place = start_place_;
    const bool needs_break = place > 0 && place == text_.size() && !text_.ends_with('\n');
    if (!imports.empty()) edits_.push_back({place, place, (needs_break ? ending : "") + imports});
  }

  // nn.DataParallel(x) becomes x; a statement that does nothing else goes, with the condition on
  // several GPUs around it.
  void unwrap(const PythonCall& call) {
    const PythonArgument* const inner = call.given("module", 0);
    if (inner == nullptr) return object("nn.DataParallel has no module");
    const Node statement = statement_of(call.node);
    const Node assignment = statement.child(0);
    const bool only_this = statement.is("expression_statement") && assignment.is("assignment") &&
                           assignment.field("right") == call.node &&
                           assignment.field("left").text() == inner->value.text();
    if (!only_this) {
      edits_.push_back({call.node.from(), call.node.to(), std::string(inner->value.text())});
      return;
    }
    // With the `if torch.cuda.device_count() > 1:` around it, when nothing but words stands there
    // besides.
    const Node around = block_of(statement).parent();
    const auto body = block_of(statement).children();
    const bool only_words = std::ranges::all_of(body, [&](const Node& other) {
      return other == statement || other.is("comment") ||
             (other.is("expression_statement") &&
              other.child(0).field("function").text() == "print");
    });
    if (around.is("if_statement") && around.fields("alternative").empty() &&
        around.field("consequence") == block_of(statement) && only_words) {
      gone_.push_back(around);
      add(take_away(text_, around), "the unwrap", around);
    } else {
      add(take_away(text_, statement), "the unwrap", statement);
    }
  }

  // After set_device "cuda" is the rank's own GPU; "cuda:0" would be everybody's.
  void choose_devices() {
    for (const Node& node : module_.tree().root().descendants("string")) {
      const auto value = string_value(node);
      if (!value && node.text().find("cuda:") != std::string_view::npos)
        return object(fmt::format("{} chooses a GPU itself", words_of(input_, single_.file, node)));
      if (!value || !value->starts_with("cuda:")) continue;
      if (*value != "cuda:0" || node.parent().is("binary_operator"))
        return object(fmt::format("{} names {}", words_of(input_, single_.file, node), *value));
      const std::size_t colon = node.from() + node.text().find(":0");
      edits_.push_back({colon, colon + 2, ""});
    }
    for (const PythonCall& call : module_.calls()) {
      const PythonArgument* const first = call.positional(0);
      const PythonArgument* const named = call.argument("device");
      const bool chooses = (call.last_name() == "device" && call.positional(1) != nullptr) ||
                           (named != nullptr && number_value(named->value)) ||
                           (call.last_name() == "set_device" && named != nullptr);
      if (chooses)
        return object(
            fmt::format("{} chooses a GPU itself", words_of(input_, single_.file, call.node)));
      if (first == nullptr || call.callee.find('.') == std::string::npos) continue;
      if (call.last_name() == "set_device" ||
          (call.last_name() == "to" && number_value(first->value)))
        return object(
            fmt::format("{} chooses a GPU itself", words_of(input_, single_.file, call.node)));
      if (call.last_name() != "cuda" || call.arguments.size() != 1) continue;
      // .cuda(0), or a name that is 0 on every way.
      const Origins ways = script_.origins->of(single_.file, first->value);
      const bool is_first =
          ways.complete && !ways.all.empty() &&
          std::ranges::all_of(ways.all, [](const Origin& origin) {
            return number_value(origin.expression) == 0 || is_none(origin.expression);
          });
      if (!is_first)
        return object(
            fmt::format("{} chooses a GPU itself", words_of(input_, single_.file, call.node)));
      edits_.push_back({first->whole.from(), first->whole.to(), ""});
    }
  }

  // Rank 0 goes first where something is downloaded; the others find it there.
  void download_once() {
    std::map<std::uint32_t, std::pair<Node, Node>> blocks;  // first and last statement of a block
    for (const PythonCall& call : module_.calls()) {
      const PythonArgument* const download = call.argument("download");
      if (download == nullptr || bool_value(download->value) != true) continue;
      const Node statement = statement_of(call.node);
      if (statement.is("return_statement"))
        return object(fmt::format("{} downloads and returns in one line: give it a name first",
                                  words_of(input_, single_.file, call.node)));
      if (!is_after_start(statement))
        return object(fmt::format("{} downloads before the ranks have met",
                                  words_of(input_, single_.file, call.node)));
      auto [row, fresh] =
          blocks.emplace(block_of(statement).index(), std::pair(statement, statement));
      if (!fresh) row->second.second = statement;
    }
    const std::string step = indent_step(text_);
    for (const auto& [block, ends] : blocks) {
      add(line_above(text_, ends.first,
                     fmt::format("if dist.get_rank() != 0:\n{}dist.barrier()  # rank 0 downloads, "
                                 "the others find it there",
                                 step)),
          "the download", ends.first);
      add(line_below(text_, ends.second, fmt::format("{}\n{}dist.barrier()", kOnRank0, step)),
          "the download", ends.second);
    }
  }

  void share_out(const PythonCall& loader) {
    const ArgumentSet arguments = ArgumentSet::of_call(loader);
    const CallAt at{single_.file, &loader};
    const Node dataset = dataset_of(loader);
    const Setting* const shuffle = arguments.find("shuffle");
    if (arguments.is_open() || arguments.has("sampler") || arguments.has("batch_sampler") ||
        loader.positional(2) != nullptr)
      return object(fmt::format("{} has a sampler, or more arguments than can be seen",
                                words_of(input_, single_.file, loader.node)));
    if (is_streamed(input_, script_, at))
      return object(fmt::format("{} goes over a stream: the dataset has to share it out",
                                words_of(input_, single_.file, loader.node)));
    if (shuffle != nullptr && !shuffle->truth)
      return object(
          fmt::format("{} shuffles by a condition", words_of(input_, single_.file, loader.node)));
    std::string data(dataset.text());
    if (!dataset.is("identifier") && !dataset.is("attribute")) {
      data = "train_data";
      if (!module_.assigned(data).empty())
        return object(fmt::format("the dataset of {} has no name",
                                  words_of(input_, single_.file, loader.node)));
      add(line_above(text_, statement_of(loader.node),
                     fmt::format("{} = {}", data, dataset.text())),
          "the dataset", dataset);
      edits_.push_back({dataset.from(), dataset.to(), data});
    }
    const bool shuffles = shuffle != nullptr && shuffle->truth == true;
    const std::string made =
        fmt::format("DistributedSampler({}{})", data, shuffles ? "" : ", shuffle=False");
    if (shuffle != nullptr)
      edits_.push_back({shuffle->whole.from(), shuffle->whole.to(), "sampler=" + made});
    else
      add(arguments.set(text_, "sampler", made), "the sampler", loader.node);
    // nn.DataParallel split this batch among the GPUs.
    const PythonArgument* const batch = loader.given("batch_size", 1);
    const bool keeps = !single_.parallels.empty() || input_.wishes.batch == GlobalBatch::keep;
    if (batch != nullptr && keeps &&
        number_value(batch->value).value_or(2) < input_.wishes.gpus.value_or(2))
      return object("the batch is smaller than the number of ranks");
    if (batch != nullptr && keeps && is_used_in_training(batch->value))
      return object(
          fmt::format("{} is the size of what the loop makes, too: on each rank a batch is "
                      "a part of it",
                      batch->value.text()));
    if (batch != nullptr && keeps)
      edits_.push_back({batch->value.from(), batch->value.to(),
                        grouped(batch->value) + " // dist.get_world_size()"});
  }

  // torch.randint(0, n, (batch_size,)) beside a batch that is smaller now.
  bool is_used_in_training(Node batch) const {
    if (!batch.is("identifier") && !batch.is("attribute")) return false;
    return std::ranges::any_of(script_.loops, [&](const TrainingLoop& loop) {
      const auto used =
          loop.body().descendants(batch.is("identifier") ? "identifier" : "attribute");
      return std::ranges::any_of(used,
                                 [&](const Node& other) { return other.text() == batch.text(); });
    });
  }

  void tell_epochs() {
    std::vector<Node> told;
    for (const TrainingLoop& loop : script_.loops) {
      const PythonArgument* const shuffle = loop.loaders.front().call->argument("shuffle");
      // one order for all epochs, as before
      if (shuffle == nullptr || bool_value(shuffle->value) != true) continue;
      for (const EpochLoop& epochs : epoch_loops(*script_.origins, loop)) {
        if (std::ranges::find(told, epochs.loop) != told.end()) continue;
        told.push_back(epochs.loop);
        const std::string loader = loader_seen_from(loop, epochs);
        if (epochs.file != single_.file || epochs.counter.empty() || loader.empty())
          return object(
              fmt::format("the loop over epochs at {} does not count, or does not see the loader",
                          words_of(input_, epochs.file, epochs.loop)));
        add(first_in_body(text_, epochs.loop,
                          fmt::format("{}.sampler.set_epoch({})", loader, epochs.counter)),
            "the epoch", epochs.loop);
      }
    }
  }

  std::string loader_seen_from(const TrainingLoop& loop, const EpochLoop& epochs) const {
    const Node scope = function_around(epochs.loop);
    if (loop.function == scope && loop.source &&
        (loop.source.is("identifier") || loop.source.is("attribute")))
      return std::string(loop.source.text());
    for (const PythonAssignment& item : module_.assignments())
      if (item.value == loop.loaders.front().call->node && !item.element &&
          (item.function == scope || !item.function))
        return item.target;
    return "";
  }

  void wrap() {
    const std::string where = also_on_cpu_ ? "" : ", device_ids=[torch.cuda.current_device()]";
    const std::string unused = part_that_no_pass_uses(input_, script_, single_).empty()
                                   ? ""
                                   : ", find_unused_parameters=True";
    add(line_above(
            text_, single_.training,
            fmt::format("{0} = DistributedDataParallel({0}{1}{2})", single_.model, where, unused)),
        "the wrap", single_.training);
    // A function that sets a name of the module needs to say so; the module's own code does not.
    if (single_.scope && module_.assigned(single_.model).empty()) {
      const auto functions = module_.functions();
      const bool given = std::ranges::any_of(functions, [&](const PythonFunction& function) {
        return function.node == single_.scope &&
               std::ranges::find(function.parameters, single_.model) != function.parameters.end();
      });
      if (!given) object(fmt::format("it is not seen where {} is made", single_.model));
    }
  }

  // Whether a name in some place is the model that was wrapped: in its scope after the wrap, or in
  // a function that only reads the module's.
  bool is_wrapped_here(Node node) const {
    const Node function = function_around(node);
    if (function == single_.scope) return node.from() >= single_.training.from();
    if (single_.scope) return false;
    return std::ranges::none_of(module_.functions(),
                                [&](const PythonFunction& other) {
                                  return other.node == function &&
                                         std::ranges::find(other.parameters, single_.model) !=
                                             other.parameters.end();
                                }) &&
           std::ranges::none_of(module_.assignments(), [&](const PythonAssignment& item) {
             return item.function == function && item.target == single_.model;
           });
  }

  // The bare module's own attributes and its names in a checkpoint: through `.module`.
  // nn.DataParallel's scripts do that already; but where they load a checkpoint into the model
  // before training, that model is the bare one now.
  void reach_into_the_wrapped() {
    loads_before_ = std::ranges::any_of(module_.calls(), [&](const PythonCall& call) {
      return call.callee == single_.model + ".load_state_dict" && !is_wrapped_here(call.node);
    });
    for (const Node& name : module_.tree().root().descendants("identifier")) {
      if (name.text() != single_.model) continue;
      const Node parent = name.parent();
      if (!is_wrapped_here(name)) {
        // Between nn.DataParallel and the wrap the model is the bare one now.
        if (!single_.parallels.empty() && function_around(name) == single_.scope &&
            parent.is("attribute") && parent.field("object") == name &&
            parent.field("attribute").text() == "module")
          edits_.push_back({name.to(), parent.to(), ""});
        const Node function = function_around(name);
        const bool label = parent.is("keyword_argument") && parent.field("name") == name;
        const bool own = std::ranges::any_of(module_.functions(), [&](const PythonFunction& entry) {
          return entry.node == function &&
                 std::ranges::find(entry.parameters, single_.model) != entry.parameters.end();
        });
        if (function && single_.scope && function != single_.scope &&
            function_around(function) == single_.scope && !own && !label)
          object(fmt::format("{} uses the model from a function within",
                             words_of(input_, single_.file, name)));
        continue;
      }
      const bool list_like =
          (parent.is("subscript") && parent.field("value") == name) ||
          (parent.is("for_statement") && parent.field("right") == name) ||
          parent.is("list_splat") ||
          (parent.is("argument_list") && parent.parent().field("function").text() == "len");
      if (list_like)
        object(fmt::format("{} takes the model apart, which DDP does not hand through",
                           words_of(input_, single_.file, name)));
      const bool saved = (loads_before_ && name.parent().is("attribute") &&
                          name.parent().field("attribute").text() == "state_dict") ||
                         name.parent().is("pair");
      if (single_.parallels.empty() || saved) reach_into(name);
      hand_over(name);
    }
  }

  // Of several passes only the last has to average.
  void sync_once_an_update() {
    for (const TrainingLoop& loop : script_.loops) {
      if (!loop.accumulates()) continue;
      const auto given = handed_.find(loop.function.index());
      const std::string model = loop.function == single_.scope || !loop.function ? single_.model
                                : given != handed_.end()                         ? given->second
                                                                                 : "";
      auto edits = model.empty() ? std::vector<Edit>{} : sync_with_the_update(input_, loop, model);
      add(std::move(edits), "the sync of the last pass", loop.backward->node);
    }
  }

  void reach_into(Node name) {
    const Node parent = name.parent();
    if (parent.is("attribute") && parent.field("object") == name) {
      const std::string_view attribute = parent.field("attribute").text();
      if (std::ranges::find(kOfEveryModule, attribute) == kOfEveryModule.end())
        edits_.push_back({name.to(), name.to(), ".module"});
      return;
    }
    // {"net": net}, to be saved whole
    if (parent.is("pair") && parent.field("value") == name)
      edits_.push_back({name.to(), name.to(), ".module"});
    // torch.save(model, path)
    if (parent.is("argument_list") && parent.parent().field("function").text() == "torch.save" &&
        parent.child(0) == name)
      edits_.push_back({name.to(), name.to(), ".module"});
  }

  // A function of the script that is given the model: what it reaches for is in there.
  void hand_over(Node name) {
    Node list = name.parent();
    const bool named = list.is("keyword_argument");
    if (named) list = list.parent();
    if (!list.is("argument_list")) return;
    const ValueOrigins::Function* const called =
        script_.origins->function(single_.file, callee_of(list.parent()));
    if (called == nullptr || handed_.contains(called->node.index())) return;
    std::size_t position = 0;
    const auto items = list.children();
    while (position < items.size() && items[position] != name) ++position;
    if (list.descendants("list_splat").size() +
            called->node.field("parameters").descendants("list_splat_pattern").size() >
        0)
      object(
          fmt::format("{} is given the model among others", words_of(input_, single_.file, list)));
    std::string parameter;
    for (const PythonFunction& function : module_of(input_, called->file).functions())
      if (function.node == called->node)
        parameter = named ? std::string(name.parent().field("name").text())
                    : position < function.parameters.size() ? function.parameters[position]
                                                            : "";
    if (called->file == single_.file) handed_[called->node.index()] = parameter;
    if (parameter.empty() || !single_.parallels.empty()) return;
    bool reaches = false;
    for (const Node& inner : called->node.field("body").descendants("identifier"))
      // on to the next
      if (called->file == single_.file && inner.text() == parameter &&
          (inner.parent().is("argument_list") || inner.parent().is("keyword_argument")))
        hand_over(inner);
    for (const Node& inner : called->node.field("body").descendants("identifier"))
      if (inner.text() == parameter && inner.parent().is("attribute") &&
          inner.parent().field("object") == inner) {
        const std::string_view attribute = inner.parent().field("attribute").text();
        if (std::ranges::find(kOfEveryModule, attribute) != kOfEveryModule.end()) continue;
        reaches = true;
        if (called->file == single_.file) edits_.push_back({inner.to(), inner.to(), ".module"});
      }
    if (reaches && (called->file != single_.file ||
                    script_.origins->callers(called->file, called->node).size() > 1))
      object(fmt::format("{} reaches into the model, and is called with others, too",
                         words_of(input_, called->file, called->node.field("name"))));
  }

  bool is_gone(Node node) const {
    return std::ranges::any_of(gone_, [&](const Node& other) { return other.contains(node); });
  }

  // What is said, and what is written to files that have one name on all ranks.
  static bool is_for_rank_0(const PythonCall& call) {
    static constexpr std::array<std::string_view, 6> kNames = {
        "save_pretrained", "savefig", "save_image", "imwrite", "save", "imsave"};
    if (is_said(call)) return true;
    return std::ranges::find(kNames, call.last_name()) != kNames.end();
  }

  // What a call's name is: the parser takes the star of f(*g(x)) for a part of g's.
  static std::string_view callee_of(Node call) {
    std::string_view callee = call.field("function").text();
    while (callee.starts_with("*")) callee.remove_prefix(1);
    return callee;
  }

  static bool is_said(const PythonCall& call) {
    return call.callee == "print" || call.full_name == "sys.stdout.write" ||
           call.full_name == "sys.stdout.flush";
  }

  // A call of the model or of a function of ours: all ranks have to do it.
  bool is_for_all(Node call) const {
    const std::string_view callee = callee_of(call);
    return callee == single_.model || (callee.find('.') == std::string_view::npos &&
                                       script_.origins->function(single_.file, callee) != nullptr);
  }

  // What a print asks for that all ranks have to do together (a wrapped model may talk to the
  // others): done before, and only shown by rank 0.
  void do_before(Node statement, Node first) {
    for (const Node& call : statement.descendants("call")) {
      const bool ours = is_for_all(call);
      const bool within_another = std::ranges::any_of(
          done_before_, [&](const Node& other) { return other.contains(call); });
      if (!ours || within_another) continue;
      for (const char* around :
           {"list_comprehension", "generator_expression", "dictionary_comprehension",
            "set_comprehension", "lambda", "conditional_expression", "boolean_operator"})
        if (const Node outer = call.enclosing(around); outer && statement.contains(outer))
          return object(fmt::format(
              "{} asks for something within an expression that all ranks would have to do",
              words_of(input_, single_.file, call)));
      done_before_.push_back(call);
      std::string name = "shown";
      for (int number = 2;
           !module_.assigned(name).empty() || std::ranges::find(shown_, name) != shown_.end();
           ++number)
        name = fmt::format("shown_{}", number);
      shown_.push_back(name);
      const std::size_t stars =
          static_cast<std::size_t>(callee_of(call).data() - call.field("function").text().data());
      add(line_above(text_, first, fmt::format("{} = {}", name, call.text().substr(stars))),
          "a value that is shown", call);
      edits_.push_back({call.from() + stars, call.to(), name});
    }
  }

  // Prints and saves, neighbours under one condition.
  void let_rank_0_speak() {
    std::vector<Node> statements;
    for (FileId other = 0; other < input_.project.size() && !is_imported_; ++other)
      if (const PythonModule* const module =
              other == single_.file ? nullptr : input_.project.file(other).python())
        is_imported_ = std::ranges::any_of(module->imports(), [&](const PythonImport& import) {
          return input_.project.module(other, import.module) == single_.file;
        });
    for (const PythonCall& call : module_.calls()) {
      const Node statement = statement_of(call.node);
      const bool alone = statement.is("expression_statement") && statement.child(0) == call.node;
      const bool opens = statement.is("with_statement") && opens_for_writing(call) &&
                         !statement.field("body").contains(call.node);
      if (!(alone && is_for_rank_0(call)) && !opens) continue;
      // A print that other scripts or loader's workers come to may have no group to ask; printed N
      // times it does no harm.
      if (is_said(call) && (call.node.enclosing("class_definition") ||
                            (is_imported_ && function_around(call.node) &&
                             function_around(call.node) != single_.scope)))
        continue;
      if (opens) {
        const auto calls = statement.descendants("call");
        if (!statement.descendants("for_statement").empty() ||
            !statement.descendants("while_statement").empty() ||
            std::ranges::any_of(calls, [&](const Node& inner) { return is_for_all(inner); }))
          return object(fmt::format("{} writes a file around more than rank 0's part",
                                    words_of(input_, single_.file, call.node)));
      }
      if (is_gone(statement) || !is_after_start(statement)) continue;
      if (std::ranges::any_of(statements,
                              [&](const Node& other) { return other.contains(statement); }))
        continue;
      if (call.node.enclosing("class_definition") && !function_around(call.node)) continue;
      statements.push_back(statement);
    }
    for (std::size_t first = 0; first < statements.size();) {
      std::size_t last = first;
      const auto asks = [&](Node statement) {
        const auto calls = statement.descendants("call");
        return std::ranges::any_of(calls, [&](const Node& call) { return is_for_all(call); });
      };
      while (last + 1 < statements.size() &&
             next_statement(statements[last]) == statements[last + 1] &&
             !asks(statements[last + 1]))
        ++last;
      do_before(statements[first], statements[first]);  // the others of the group ask for nothing
      auto edits = put_under(text_, statements[first], statements[last], kOnRank0);
      const bool saves = std::any_of(
          statements.begin() + static_cast<std::ptrdiff_t>(first),
          statements.begin() + static_cast<std::ptrdiff_t>(last) + 1, [](const Node& statement) {
            return statement.text().find("print") != 0 && statement.text().find("sys.stdout") != 0;
          });
      if (!edits.empty() || saves) add(std::move(edits), "rank 0's part", statements[first]);
      first = last + 1;
    }
  }

  // Folders and files that one rank makes and others meet.
  void keep_files_apart() {
    // Folders are made by whoever comes first.
    for (const PythonCall& call : module_.calls()) {
      const bool makes =
          call.full_name == "os.mkdir" || call.full_name == "os.makedirs" ||
          (call.last_name() == "mkdir" && call.callee.find('.') != std::string::npos);
      if (!makes || call.argument("exist_ok") != nullptr || call.has_splat || is_gone(call.node))
        continue;
      add(ArgumentSet::of_call(call).set(text_, "exist_ok", "True"), "the folder", call.node);
      if (const Node name = call.node.field("function").field("attribute");
          call.full_name == "os.mkdir")
        edits_.push_back({name.from(), name.to(), "makedirs"});
    }
    for (const PythonCall& call : module_.calls())
      if (call.full_name == "torch.load" && is_wrapped_here(call.node) &&
          !call.node.enclosing("class_definition")) {
        const bool saved_before = std::ranges::any_of(module_.calls(), [&](const PythonCall& save) {
          return save.full_name == "torch.save" && may_be_one_file(save, call);
        });
        if (saved_before)
          add(line_above(text_, statement_of(call.node), "dist.barrier()  # rank 0 has written it"),
              "the wait", call.node);
      }
    for (const PythonCall& call : module_.calls())
      if (call.full_name == "torch.load" && !call.has_splat &&
          call.argument("map_location") == nullptr && call.positional(1) == nullptr)
        add(ArgumentSet::of_call(call).set(text_, "map_location", "\"cpu\""), "map_location",
            call.node);
  }

  static bool may_be_one_file(const PythonCall& save, const PythonCall& load) {
    const PythonArgument* const written = save.given("f", 1);
    const PythonArgument* const read = load.given("f", 0);
    if (written == nullptr || read == nullptr) return true;
    const auto first = string_value(written->value);
    const auto second = string_value(read->value);
    return !first || !second || *first == *second;
  }

  void show_a_ranks_share() {
    if (!is_imported_)
      for (const PythonCall* const bar : bars_of(module_))
        if (is_after_start(statement_of(bar->node)))
          add(ArgumentSet::of_call(*bar).set(text_, "disable", "dist.get_rank() != 0"), "the bar",
              bar->node);
    for (Edit& edit : means_over_a_ranks_share(module_, script_)) edits_.push_back(std::move(edit));
  }

  void leave_the_group() {
    const Node block = single_.main_part ? single_.main_part : module_.tree().root();
    Node last;
    for (const Node& statement : block.children())
      if (!statement.is("comment")) last = statement;
    add(line_below(text_, last, "dist.destroy_process_group()"), "the end", last);
  }

  const RuleInput& input_;
  const ScriptFacts& script_;
  const SingleProcessScript& single_;
  const PythonModule& module_;
  std::string_view text_;
  bool also_on_cpu_;
  std::vector<Edit> edits_;
  std::size_t start_place_ = 0;
  bool loads_before_ = false;
  bool is_imported_ = false;
  std::vector<Node> gone_;
  std::vector<Node> done_before_;
  std::vector<std::string> shown_;
  // functions that are given the model: the parameter
  std::map<std::uint32_t, std::string> handed_;
  std::string objection_;
};

}  // namespace

Converted convert_to_ddp(const RuleInput& input, const ScriptFacts& script,
                         const SingleProcessScript& single) {
  return Conversion(input, script, single).run();
}

}  // namespace lockstep
