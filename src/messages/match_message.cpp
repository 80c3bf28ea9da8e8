// Which known message a line holds.
//
// Words alone are not enough for some of them, seen in public logs: a web client that cannot
// resolve api.wandb.ai, a web server whose port is taken, PyTorch's list of who holds a GPU's
// memory, which in a container counts the run itself among the others, and a tensor that was left
// on the CPU.
#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "messages/known_messages.hpp"

namespace lockstep {
namespace {

using namespace std::string_view_literals;
bool holds(std::string_view line, std::string_view words) {
  constexpr std::string_view kSomething = " ... ";
  while (true) {
    const auto end = words.find(kSomething);
    const auto at = line.find(words.substr(0, end));
    if (at == std::string_view::npos) return false;
    if (end == std::string_view::npos) return true;
    line.remove_prefix(at + end);
    words.remove_prefix(end + kSomething.size());
  }
}

// The first three letters of all messages, by which most lines are told to hold none: a log of
// 19,000 readings was half of its time in looking for a hundred messages in each line.
class FirstLetters {
 public:
  FirstLetters() {
    for (const KnownMessage& message : known_messages())
      if (message.by_words) begins_.set(key_of(message.words.data()));
  }
  bool may_begin_in(std::string_view line) const {
    for (std::size_t i = 0; i + kLetters <= line.size(); ++i)
      if (begins_.test(key_of(line.data() + i))) return true;
    return false;
  }

 private:
  static constexpr std::size_t kLetters = 3;
  static constexpr std::size_t kKeys = 1U << 15U;
  static std::size_t key_of(const char* letters) {
    std::size_t key = 0;
    for (std::size_t i = 0; i < kLetters; ++i)
      key = key * 32 + (static_cast<unsigned char>(letters[i]) & 31U);
    return key;
  }
  std::bitset<kKeys> begins_;
};

// ---- who speaks of names and ports ----

constexpr std::array<std::string_view, 12> kRendezvous = {
    "c10d",          "socket.cpp",    "TCPStore",     "MASTER_",
    "rendezvous",    "Rendezvous",    "torch",        "gai error:",
    "client socket", "server socket", "ProcessGroup", "RuntimeError: Address"};
constexpr std::array<std::string_view, 26> kWebClients = {
    // a stream of ffmpeg's, a download of pip's
    "[tcp @", "Retrying (", "[http @", "HTTPSConnection", "HTTPConnection", "urllib", "requests.",
    "https://", "http://", "wandb", "huggingface", "aiohttp", "httpx", "uvicorn", "gradio",
    "swanlab", "nginx", "apache", "httpd", "web server", "webserver", "Web server", "dashboard",
    "ensorBoard", "upyter",
    // NCCL's own sockets: it takes the next port, or says more
    "NCCL WARN Call to bind failed"};

// PyTorch tries IPv6 first and says so, then goes on with IPv4: harmless where that works.
bool is_a_warning_of_ipv6(std::string_view line) {
  return line.find("[W") != std::string_view::npos &&
         line.find("IPv6 network addresses of") != std::string_view::npos;
}

bool is_of_names_or_ports(FindingCode code) {
  return code == FindingCode::host_name_unresolvable || code == FindingCode::port_in_use;
}

// ---- who holds the memory ----

// "15.32 GiB" behind these words, in bytes.
std::optional<double> size_behind(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + words.size());
  while (line.starts_with(' ')) line.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{}) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  constexpr std::array<std::string_view, 5> kUnits = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  for (std::size_t power = 0; power < kUnits.size(); ++power)
    if (line.starts_with(kUnits[power])) return value * std::pow(1024.0, power);
  return std::nullopt;
}

double sum_of_processes(std::string_view line, std::optional<double> own) {
  // A process as large as what PyTorch holds, and a CUDA context of up to 1.5 GB, is the run.
  constexpr double kContextBytes = 1.5e9;
  constexpr std::string_view kProcess = "Process ";
  double others = 0;
  bool own_is_listed = false;
  for (auto at = line.find(kProcess); at != std::string_view::npos; at = line.find(kProcess)) {
    line.remove_prefix(at + kProcess.size());
    const auto size = size_behind(line.substr(0, line.find("memory in use")), " has ");
    if (!size) continue;
    if (own && !own_is_listed && *size >= *own * 0.99 && *size <= *own + kContextBytes)
      own_is_listed = true;
    else
      others += *size;
  }
  return others;
}

// Contexts of other processes take 0.4 to 1.4 GB: that is not what keeps a run from its memory.
bool others_hold_much(std::string_view line) {
  constexpr double kOfTheGpu = 0.2;
  auto total = size_behind(line, "total capacity of");
  if (!total) total = size_behind(line, "total capacty of");  // PyTorch 2.0 and 2.1 spell it so
  std::optional<double> own;
  if (line.find("this process has") == std::string_view::npos)
    if (const auto allocated = size_behind(line, "Of the allocated memory"))
      own = *allocated + size_behind(line, "allocated by PyTorch, and").value_or(0);
  return total && sum_of_processes(line, own) >= kOfTheGpu * *total;
}

// Of PyTorch's older message: "(GPU 0; 31.75 GiB total capacity; 5.22 GiB already allocated; 44.69
// MiB free; 5.22 GiB reserved in total by PyTorch)".
std::optional<double> size_before(std::string_view line, std::string_view words) {
  const auto end = line.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  const auto begin = line.substr(0, end).rfind(';');
  return begin == std::string_view::npos ? std::nullopt : size_behind(line.substr(begin + 1), "");
}

// What is neither free nor PyTorch's own, nor its context, is others'.
bool sizes_leave_much_to_others(std::string_view line) {
  constexpr double kOfTheGpu = 0.2;
  constexpr double kContextBytes = 1.5e9;
  const auto total = size_before(line, " total capacity");
  const auto free = size_before(line, " free");
  const auto own = size_before(line, " reserved in total by PyTorch");
  return total && free && own && *total - *free - *own - kContextBytes >= kOfTheGpu * *total;
}

// The driver keeps some hundred MiB for itself: so much less than what was free is no full GPU.
bool had_room(std::string_view line) {
  constexpr double kTimesAsMuch = 2;
  constexpr double kAtLeastBytes = 2e9;
  const auto asked = size_behind(line, "Tried to allocate");
  auto free = size_behind(line, " of which");
  if (!free) free = size_before(line, " free");
  return asked && free && *free > std::max(kAtLeastBytes, kTimesAsMuch * *asked);
}

// ---- where a socket was to connect to ----

bool is_address(std::string_view word) {
  if (word.starts_with('[')) return true;  // of IPv6
  return std::ranges::count(word, '.') == 3 &&
         word.find_first_not_of("0123456789.") == std::string_view::npos;
}

// "... any network address of (10.0.0.1, 29500)", "... trying to connect to 10.0.0.1:29500"
bool connects_to_an_address(std::string_view line) {
  for (const std::string_view words :
       {"address of ("sv, "trying to connect to ("sv, "trying to connect to "sv}) {
    const auto at = line.find(words);
    if (at == std::string_view::npos) continue;
    const std::string_view target = line.substr(at + words.size());
    return is_address(target.substr(0, target.find_first_of(",: )")));
  }
  return false;
}

// ---- two collectives in one line ----

bool both_are_the_same_operation(std::string_view line) {
  constexpr std::string_view kOperation = "OpType=";
  const auto operation_at = [line](std::size_t at) {
    return line.substr(at, line.find_first_of(", )", at) - at);
  };
  const auto first = line.find(kOperation);
  if (first == std::string_view::npos) return false;
  const auto second = line.find(kOperation, first + 1);
  return second != std::string_view::npos && operation_at(first) == operation_at(second);
}

}  // namespace

std::optional<MatchedMessage> match_message(std::string_view line) {
  static const FirstLetters first_letters;
  if (trim(line) == kKilledAlone) return MatchedMessage{&known_message(kKilledAlone), false};
  if (!first_letters.may_begin_in(line)) return std::nullopt;
  for (const KnownMessage& message : known_messages()) {
    if (!message.by_words || !holds(line, message.words)) continue;
    if (message.words == kMismatchOfSizes && !both_are_the_same_operation(line) &&
        line.find(kOtherSizes) == std::string_view::npos)
      continue;
    // a task of the step failed: nobody called scancel
    if (message.words == kSlurmCancelled &&
        line.find("DUE TO TASK FAILURE") != std::string_view::npos)
      continue;
    // TensorFlow asks for less when it is refused.
    if (message.code == FindingCode::out_of_memory &&
        holds_any(line, {"caller indicates that this is not a failure", ": I tensorflow/"}))
      continue;
    if (message.code == FindingCode::out_of_memory && had_room(line))
      return MatchedMessage{&known_message(kRoomWasLeft), false};
    if (message.code == FindingCode::out_of_memory &&
        line.find(kNoBatchYet) != std::string_view::npos)
      return MatchedMessage{&known_message(kNoBatchYet), true};
    if (message.words == kOutOfMemory && sizes_leave_much_to_others(line))
      return MatchedMessage{&known_message(kHeldElsewhere), true};
    if (message.words == kOthersHoldMemory && !others_hold_much(line)) continue;
    if (message.words == kTwoDevices &&
        (holds(line, "cuda ... and cpu") || holds(line, "cpu and cuda")))
      continue;
    if (message.code == FindingCode::host_name_unresolvable && is_a_warning_of_ipv6(line)) {
      if (line.find("(localhost,") != std::string_view::npos) continue;
      return MatchedMessage{&message, false};
    }
    if (message.code == FindingCode::host_name_unresolvable && connects_to_an_address(line))
      return MatchedMessage{&known_message(kNobodyAnswers), true};
    if (is_of_names_or_ports(message.code)) {
      if (holds_any(line, kRendezvous) || message.words == "EADDRINUSE")
        return MatchedMessage{&message, true};
      if (holds_any(line, kWebClients)) continue;
      return MatchedMessage{&message, false};
    }
    return MatchedMessage{&message, message.weight != MessageWeight::usual_reason};
  }
  return std::nullopt;
}

bool speaks_of_a_child(std::string_view line) {
  if (holds_any(line, {"exited with non-zero status", "non-zero exit status", "exited with code",
                       "Exited with exit code"}))
    return true;
  constexpr std::string_view kCode = "exitcode";
  const auto at = line.find(kCode);
  if (at == std::string_view::npos) return false;
  line.remove_prefix(at + kCode.size());
  const auto digit = line.find_first_not_of(" :");
  return digit != std::string_view::npos && line[digit] >= '1' && line[digit] <= '9';
}

bool speaks_for(const KnownMessage& message, std::string_view another_line) {
  constexpr std::array<std::string_view, 6> kLaunchers = {"torchrun",          "torch.distributed",
                                                          "torch/distributed", "local_rank",
                                                          "LOCAL_RANK",        "accelerate launch"};
  constexpr std::array<std::string_view, 4> kPlacers = {"device_map", "accelerate/hooks.py",
                                                        "accelerate/utils", "/transformers/models"};
  if (message.code == FindingCode::more_ranks_than_gpus) return holds_any(another_line, kLaunchers);
  if (message.words == kTwoDevices) return holds_any(another_line, kPlacers);
  return false;
}

}  // namespace lockstep
