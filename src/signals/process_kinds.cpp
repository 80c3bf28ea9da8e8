#include "signals/process_kinds.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/text.hpp"

namespace lockstep {
namespace {

// Draw a screen; every desktop machine has them on GPU 0.
constexpr std::array<std::string_view, 15> kDisplayPrograms = {
    "Xorg",        "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11",
    "plasmashell", "mutter",   "firefox",     "chrome",       "firefox-bin",
    "chromium",    "code",     "slack",       "Discord",      "steamwebhelper"};
// In small letters; a word ends at anything that is no letter and no digit.
constexpr std::array<std::string_view, 25> kServers = {"ipykernel_launcher",
                                                       "ipykernel",
                                                       "jupyter",
                                                       "streamlit",
                                                       "gradio",
                                                       "comfyui",
                                                       "vllm",
                                                       "tritonserver",
                                                       "triton_python_backend_stub",
                                                       "uvicorn",
                                                       "gunicorn",
                                                       "text-generation-launcher",
                                                       "text-generation-server",
                                                       "text_generation_server",
                                                       "sglang",
                                                       "ollama",
                                                       "llama-server",
                                                       "llama.cpp",
                                                       "api_server",
                                                       "torchserve",
                                                       "lmdeploy",
                                                       "infinity_emb",
                                                       "trtllm-serve",
                                                       "tabbyapi",
                                                       "serve"};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A command that names its own rank ("--local_rank=3", "--local-rank 3", a title "train: rank
// 3/8"), and what it says besides.
struct CommandOfARank {
  int rank = 0;
  std::string others;
};
std::optional<CommandOfARank> rank_in_command(const ProcessSample& process) {
  if (!process.command) return std::nullopt;
  std::string text;
  for (const std::string& word : *process.command) text += word + ' ';
  for (auto at = text.find("rank"); at != std::string::npos; at = text.find("rank", at + 1)) {
    const std::size_t number = at + 4;
    if (number + 1 >= text.size() || (text[number] != '=' && text[number] != ' ')) continue;
    std::size_t end = number + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (const auto rank = small_number(text.substr(number + 1, end - number - 1)))
      return CommandOfARank{*rank, text.erase(number + 1, end - number - 1)};
  }
  return std::nullopt;
}

}  // namespace

bool draws_a_screen(const ProcessSample& process) {
  if (!process.command || process.command->empty()) return false;
  const std::string_view name = base_name(process.command->front());
  return std::ranges::find(kDisplayPrograms, name) != kDisplayPrograms.end() ||
         std::ranges::find(*process.command, "--type=gpu-process") != process.command->end();
}

std::optional<int> small_number(const std::string& text) {
  if (text.empty() || text.size() > 7 ||
      !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoi(text);
}

bool are_ranks_by_their_commands(const ProcessSample& a, const ProcessSample& b) {
  const auto one = rank_in_command(a);
  const auto other = rank_in_command(b);
  return one && other && one->rank != other->rank && one->others == other->others;
}

bool holds_a_part_of_a_model(const ProcessSample& process) {
  return process.command && !process.command->empty() &&
         holds_any(process.command->front(), {"_TP", "_PP", "_EP", "Worker"});
}

// Of a server that titles its processes, and no part of a model: it has requests of its own.
bool is_an_engine(const ProcessSample& process) {
  return process.command && is_server(*process.command) && !holds_a_part_of_a_model(process) &&
         process.command->front().find("::") != std::string::npos;
}

bool is_notebook(const ProcessSample& process) {
  return process.command && std::ranges::any_of(*process.command, [](const std::string& word) {
           return holds_any(word, {"ipykernel", "jupyter"});
         });
}

bool is_server(const std::vector<std::string>& command) {
  // The program, its module or its script: not the arguments, in which a model may be named
  // anything.
  const auto names_one = [](std::string_view written) {
    const std::string text = lower_case(written);
    const auto ends = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
    for (const std::string_view server : kServers)
      for (auto at = text.find(server); at != std::string_view::npos;
           at = text.find(server, at + 1)) {
        const bool begins = at == 0 || ends(text[at - 1]);
        const std::size_t end = at + server.size();
        if (begins && (end == text.size() || ends(text[end]))) return true;
      }
    return false;
  };
  if (command.empty()) return false;
  // Titles that servers give themselves: "VLLM::Worker_TP0", "sglang::scheduler_TP1",
  // "ray::RayWorkerWrapper.execute_method".
  const std::string_view title = command.front();
  if (title.find("::") != std::string_view::npos && !title.starts_with('/'))
    return names_one(title.substr(0, title.find("::"))) || title.starts_with("ray::RayWorker") ||
           title.starts_with("ray::ServeReplica");
  const std::string_view program = base_name(command.front());
  if (!program.starts_with("python"))
    return names_one(program) || (command.size() > 1 && command[1] == "serve");
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-m") return i + 1 < command.size() && names_one(command[i + 1]);
    if (!command[i].starts_with("-"))
      return names_one(base_name(command[i])) ||
             (i + 1 < command.size() && command[i + 1] == "serve");
  }
  return false;
}

}  // namespace lockstep
