#include "fix/facts/launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string base_name(const std::string& word) {
  return std::filesystem::path(word).filename().string();
}

bool is_python(const std::string& word) {
  const std::string name = base_name(word);
  return name == "python" || (name.starts_with("python") &&
                              name.find_first_not_of("0123456789.", 6) == std::string::npos);
}

// The value after `--name value` or within `--name=value`; dashes and underscores mean the same.
std::optional<std::string> launcher_option(std::vector<std::string> words, std::string_view name) {
  for (std::string& word : words)
    if (word.starts_with("--"))
      std::replace(
          word.begin(),
          word.begin() + static_cast<std::ptrdiff_t>(std::min(word.size(), word.find('='))), '_',
          '-');
  return option_among(words, {name});
}

// Commands that run the command after them. Words that stand between (options, a duration, an
// image) are passed over.
bool runs_another(const std::string& name, const std::optional<std::string>& next) {
  static constexpr std::array<std::string_view, 24> kAlways = {
      "nohup",   "time",   "exec",        "command",   "setsid",     "sudo",
      "env",     "stdbuf", "nice",        "ionice",    "timeout",    "numactl",
      "taskset", "srun",   "mpirun",      "mpiexec",   "horovodrun", "xvfb-run",
      "nsys",    "ncu",    "singularity", "apptainer", "dotenv",     "unbuffer"};
  static constexpr std::array<std::string_view, 9> kWithRun = {
      "conda", "mamba", "micromamba", "poetry", "uv", "pipenv", "pdm", "hatch", "rye"};
  if (std::ranges::find(kAlways, name) != kAlways.end()) return true;
  return std::ranges::find(kWithRun, name) != kWithRun.end() && next == "run";
}

std::optional<int> count_of(const std::optional<std::string>& text) {
  const auto number = text ? parse_integer(*text) : std::nullopt;
  return number && *number > 0 && *number < 10'000 ? std::optional(static_cast<int>(*number))
                                                   : std::nullopt;
}

// Options of a launcher that take no value; everything else that starts with a dash and has no '='
// takes the next word.
bool stands_alone(Launcher launcher, const std::string& option) {
  static constexpr std::array<std::string_view, 6> kTorchrun = {
      "--standalone", "--no-python", "--no_python", "--run-path", "--use-env", "--use_env"};
  static constexpr std::array<std::string_view, 14> kAccelerate = {
      "--multi_gpu",     "--cpu",
      "--use_deepspeed", "--use_fsdp",
      "--tpu",           "--mps",
      "--quiet",         "-q",
      "--debug",         "--no_python",
      "--use_xpu",       "--same_network",
      "--multi-gpu",     "--enable_cpu_affinity"};
  static constexpr std::array<std::string_view, 8> kDeepspeed = {
      "--no_python",          "--no_local_rank",        "--force_multi", "--save_pid",
      "--bind_cores_to_rank", "--enable_each_rank_log", "--module",      "-m"};
  const auto in = [&](const auto& list) { return std::ranges::find(list, option) != list.end(); };
  if (option.find('=') != std::string::npos) return true;
  if (launcher == Launcher::accelerate) return in(kAccelerate);
  if (launcher == Launcher::deepspeed) return in(kDeepspeed);
  return in(kTorchrun);
}

// train.py of "${ROOT}/src/train.py".
std::string unquoted_tail(std::string word) {
  std::erase_if(word, [](char letter) { return letter == '"' || letter == '\''; });
  const auto slash = word.rfind('/');
  return slash == std::string::npos || word.find('$', slash) != std::string::npos
             ? std::string()
             : word.substr(slash + 1);
}

class LineReader {
 public:
  LineReader(const Project& project, FileId file, const CommandLineInText& line)
      : project_(project), line_(line) {
    launch_.file = file;
    launch_.line = &line;
  }

  std::optional<Launch> read() {
    if (line_.words.empty()) return std::nullopt;
    for (std::size_t i = 0; i < line_.words.size(); ++i) {
      const auto& word = line_.words[i].value;
      if (!word) {
        if (i == 0) return std::nullopt;  // who knows what runs
        continue;
      }
      const std::string name = base_name(*word);
      if (name == "srun") launch_.under_srun = true;
      if (name == "mpirun" || name == "mpiexec" || name == "horovodrun") under_mpi_ = true;
      if (name == "torchrun") return launcher(Launcher::torchrun, i, i + 1);
      if (name == "deepspeed") return launcher(Launcher::deepspeed, i, i + 1);
      if (name == "accelerate" && is(i + 1, "launch"))
        return launcher(Launcher::accelerate, i, i + 2);
      if (is_python(*word)) return python(i);
      const bool first = i == 0;
      // pkill -f python train.py
      if (first &&
          !runs_another(name, i + 1 < line_.words.size() ? line_.words[i + 1].value : std::nullopt))
        return std::nullopt;
      if (name == "bash" || name == "sh") return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool is(std::size_t index, std::string_view text) const {
    return index < line_.words.size() && line_.words[index].value == text;
  }

  std::optional<Launch> python(std::size_t start) {
    std::size_t i = start + 1;
    for (; i < line_.words.size(); ++i) {
      const auto& word = line_.words[i].value;
      if (!word && unquoted_tail(line_.words[i].raw).ends_with(".py")) break;  // $ROOT/train.py
      if (!word) return std::nullopt;
      if (*word == "-m") {
        if (is(i + 1, "torch.distributed.launch"))
          return launcher(Launcher::torch_distributed_launch, start, i + 2);
        if (is(i + 1, "torch.distributed.run")) return launcher(Launcher::torchrun, start, i + 2);
        if (is(i + 1, "accelerate.commands.launch"))
          return launcher(Launcher::accelerate, start, i + 2);
        launch_.is_module = true;
        ++i;
        break;
      }
      if (*word == "-c" || *word == "-") return std::nullopt;
      if (*word == "-W" || *word == "-X") {
        launch_.options.push_back(*word);
        if (++i < line_.words.size() && line_.words[i].value)
          launch_.options.push_back(*line_.words[i].value);
        continue;
      }
      if (!word->starts_with("-")) break;
      launch_.options.push_back(*word);
    }
    launch_.launcher = under_mpi_ ? Launcher::mpi : Launcher::python;
    return finish(start, i);
  }

  std::optional<Launch> launcher(Launcher kind, std::size_t start, std::size_t first_option) {
    launch_.launcher = kind;
    std::size_t i = first_option;
    for (; i < line_.words.size(); ++i) {
      const auto& word = line_.words[i].value;
      if (!word) {
        // $DISTRIBUTED_ARGS in the place of options: what follows may still be a script.
        if (line_.words[i].raw.find(".py") != std::string::npos) break;
        continue;
      }
      if (*word == "-m" || *word == "--module") {
        launch_.is_module = true;
        ++i;
        break;
      }
      if (!word->starts_with("-")) {
        if (word->find(' ') == std::string::npos) break;
        // a variable with several options
        for (const std::string_view part : split(*word, ' ')) launch_.options.emplace_back(part);
        continue;
      }
      launch_.options.push_back(*word);
      if (!stands_alone(kind, *word) && i + 1 < line_.words.size())
        launch_.options.push_back(line_.words[++i].value.value_or("?"));
    }
    return finish(start, i);
  }

  std::optional<Launch> finish(std::size_t start, std::size_t script) {
    if (script >= line_.words.size()) return std::nullopt;
    launch_.first_word = start;
    launch_.script_word = script;
    if (const auto& name = line_.words[script].value) {
      if (launch_.is_module)
        launch_.script = module_script(*name);
      else if (name->ends_with(".py"))
        launch_.script = project_.script(launch_.file, line_.folder, *name);
    } else if (const std::string raw = unquoted_tail(line_.words[script].raw);
               !launch_.is_module && raw.ends_with(".py")) {
      // $HOME_OF_PROJECT/train.py: by its name, where only one has it
      launch_.script = project_.script(launch_.file, std::nullopt, raw);
    }
    for (const char* name : {"--nproc-per-node", "--num-processes", "--num-gpus"})
      if (const auto value = launcher_option(launch_.options, name))
        launch_.processes = count_of(value);
    if (const auto config = launcher_option(launch_.options, "--config-file"))
      launch_.config = project_.script(launch_.file, line_.folder, *config);
    return launch_;
  }

  std::optional<FileId> module_script(const std::string& name) const {
    std::string path = name;
    std::ranges::replace(path, '.', '/');
    if (const auto found = project_.script(launch_.file, line_.folder, path + ".py")) return found;
    return project_.script(launch_.file, line_.folder, path + "/__main__.py");
  }

  const Project& project_;
  const CommandLineInText& line_;
  Launch launch_;
  bool under_mpi_ = false;
};

// The count at the end of gpu:4, gpu:a100:4, 4.
std::optional<int> slurm_count(const std::string& text) {
  std::optional<int> total;
  for (const std::string_view part : split(text, ',')) {
    const auto colon = part.rfind(':');
    std::string_view number = part.substr(colon == std::string_view::npos ? 0 : colon + 1);
    number = number.substr(0, number.find('('));
    if (const auto count = parse_integer(number))
      total = total.value_or(0) + static_cast<int>(*count);
    else if (part.starts_with("gpu"))
      total = total.value_or(0) + 1;
  }
  return total;
}

std::string_view unquoted(std::string_view text) {
  return text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                 text.back() == text.front()
             ? text.substr(1, text.size() - 2)
             : text;
}

// nvidia.com/gpu: 4 in the same container's limits; some clusters name the model:
// nvidia.com/a100: 1. A node's labels (nvidia.com/gpu.product: A100) are no numbers.
std::optional<int> kubernetes_gpus(Node container) {
  for (const Node& pair : container.descendants("block_mapping_pair")) {
    const std::string_view key = unquoted(pair.field("key").text());
    if (!key.starts_with("nvidia.com/") && !key.starts_with("amd.com/gpu")) continue;
    if (const auto count = count_of(std::string(unquoted(pair.field("value").text()))))
      return count;
  }
  return std::nullopt;
}

// CUDA_VISIBLE_DEVICES beside a command in YAML: as a key, as NAME=value in a list, as name and
// value.
std::optional<std::string> visible_in_yaml(Node owner) {
  constexpr std::string_view kName = "CUDA_VISIBLE_DEVICES";
  for (const Node& pair : owner.descendants("block_mapping_pair")) {
    const std::string_view key = unquoted(pair.field("key").text());
    const std::string_view value = unquoted(pair.field("value").text());
    if (key == kName) return std::string(value);
    if (key != "name" || value != kName) continue;
    for (const Node& other : pair.parent().children())
      if (unquoted(other.field("key").text()) == "value")
        return std::string(unquoted(other.field("value").text()));
  }
  for (const Node& item : owner.descendants("block_sequence_item"))
    if (const std::string_view text =
            item.child(0) ? unquoted(item.child(0).text()) : std::string_view();
        text.starts_with(kName) && text.size() > kName.size() && text[kName.size()] == '=')
      return std::string(text.substr(kName.size() + 1));
  return std::nullopt;
}

}  // namespace

std::vector<std::string> Launch::arguments() const {
  std::vector<std::string> words;
  for (std::size_t i = script_word + 1; i < line->words.size(); ++i)
    words.push_back(line->words[i].value.value_or(line->words[i].raw));
  return words;
}

std::vector<Launch> launches_in(const Project& project, FileId file) {
  std::vector<Launch> launches;
  const SourceFile& source = project.file(file);
  if (source.kind() == FileKind::python || source.kind() == FileKind::json ||
      source.kind() == FileKind::notebook)
    return launches;
  const std::string& text = source.text();
  if (text.find("python") == std::string::npos && text.find("torchrun") == std::string::npos &&
      text.find("accelerate") == std::string::npos && text.find("deepspeed") == std::string::npos &&
      text.find("$(PY") == std::string::npos)
    return launches;
  for (const CommandLineInText& line : source.commands())
    if (auto launch = LineReader(project, file, line).read())
      launches.push_back(std::move(*launch));
  return launches;
}

std::vector<Launch> all_launches(const Project& project) {
  std::vector<Launch> launches;
  for (FileId file = 0; file < project.size(); ++file)
    for (Launch& launch : launches_in(project, file)) launches.push_back(std::move(launch));
  return launches;
}

std::optional<int> device_count(std::string_view list) {
  list = trim(list);
  if (list.empty() || list.starts_with("-1") || list == "NoDevFiles") return 0;
  return static_cast<int>(split(list, ',').size());
}

VisibleGpus visible_gpus(const Project& project, const Launch& launch) {
  if (const auto& visible = launch.line->visible_devices) {
    if (!*visible) return {};
    return {device_count(**visible), fmt::format("CUDA_VISIBLE_DEVICES={}", **visible)};
  }
  if (const auto listed = visible_in_yaml(launch.line->owner))
    return {device_count(*listed), fmt::format("CUDA_VISIBLE_DEVICES={}", *listed)};
  std::vector<std::string> before;  // srun's own options
  for (std::size_t i = 0; launch.under_srun && i < launch.first_word; ++i)
    before.push_back(launch.line->words[i].value.value_or(launch.line->words[i].raw));
  for (const auto& name : {"--gpus-per-node", "--gres", "--gpus", "--gpus-per-task"})
    if (const auto value = option_among(before, {name});
        value && (std::string_view(name) != "--gres" || value->find("gpu") != std::string::npos))
      if (const auto count = slurm_count(*value))
        return {count, fmt::format("srun {} {}", name, *value)};
  const std::string& text = project.file(launch.file).text();
  for (const auto& names : {std::initializer_list<std::string_view>{"--gpus-per-node"},
                            {"--gres"},
                            {"--gpus", "-G"},
                            {"--gpus-per-task"}})
    if (const auto value = sbatch_value(text, names);
        value &&
        (std::string_view(*names.begin()) != "--gres" || value->find("gpu") != std::string::npos))
      if (const auto count = slurm_count(*value))
        return {count, fmt::format("#SBATCH {} {}", *names.begin(), *value)};
  if (const auto count = kubernetes_gpus(launch.line->owner))
    return {count, fmt::format("nvidia.com/gpu: {}", *count)};
  return {};
}

}  // namespace lockstep
