// What the user asked `lockstep launch` for: torchrun's flags by their meaning, and lockstep's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

// Which of a rank's two streams: torchrun's 0, 1, 2, 3.
struct Streams {
  bool out = false;
  bool err = false;
  bool any() const { return out || err; }
};

// For all ranks, or rank by rank ("0:1,1:2": a rank that is not named has none).
struct RankStreams {
  Streams of_all;
  std::map<int, Streams> by_rank;
  Streams of(int local_rank) const {
    if (by_rank.empty()) return of_all;
    const auto found = by_rank.find(local_rank);
    return found == by_rank.end() ? Streams{} : found->second;
  }
  bool any() const { return of_all.any() || !by_rank.empty(); }
};

// Which processors a rank may use, next to its GPU: the memory node's, the socket's, its own share
// of the node's cores, or the cores of one cache.
enum class Binding : std::uint8_t { none, node, socket, cores, core_complex };

enum class Backend : std::uint8_t { static_nodes, c10d };

// A rank that another launcher (srun, mpirun) has given to this very process.
struct AdoptedRank {
  std::string launcher;
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;
  int node = 0;
  int nodes = 1;
};

struct LaunchSettings {
  // Where the ranks are and how they meet.
  bool standalone = false;
  int min_nodes = 1;
  int max_nodes = 1;
  std::string processes_per_node = "1";  // a number, gpu, cpu, auto
  int node_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  std::string local_address;
  Backend backend = Backend::static_nodes;
  std::string endpoint;
  std::string run_id = "none";
  std::map<std::string, std::string> rendezvous_conf;
  bool with_torchrun = false;  // other machines run torchrun: torch's own rendezvous, static too
  std::optional<AdoptedRank> adopted;

  // How ranks run and end.
  int max_restarts = 0;
  std::chrono::nanoseconds monitor_interval = std::chrono::milliseconds(100);
  std::chrono::nanoseconds grace = std::chrono::seconds(30);
  std::string role = "default";
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  bool virtual_local_rank = false;
  Binding binding = Binding::none;
  bool bind_memory = false;

  // What they write.
  // empty: a temporary one, removed at the end unless streams are redirected to it
  std::string log_folder;
  RankStreams redirects;
  RankStreams tee;
  std::set<int> shown_ranks;  // empty: all
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  bool line_times = false;
  bool fold_lines = false;

  // What they run.
  bool module = false;
  bool no_python = false;
  bool pass_local_rank = false;
  std::string script;
  std::vector<std::string> script_arguments;

  bool quiet = false;
  bool checks = true;
  bool watch = false;
  bool nccl_debug = false;
  bool recommended = false;
  std::string probes;                                // auto, or names; empty: none
  std::string from_report;                           // a file
  std::map<std::string, std::string> set_variables;  // advised, for the ranks
  std::set<std::string> unset_variables;
  std::set<std::string> given;     // flags that the user gave, by name
  std::vector<std::string> notes;  // flags that are taken and mean nothing here, in words
};

}  // namespace lockstep
