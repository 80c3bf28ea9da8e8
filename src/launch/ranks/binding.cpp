#include "launch/ranks/binding.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "base/dynamic_library.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#ifdef LOCKSTEP_HWLOC
#include <hwloc.h>
#endif

namespace lockstep {
namespace {

namespace fs = std::filesystem;

template <class T>
std::vector<T> distinct(const std::vector<Processor>& processors, T Processor::* member) {
  std::vector<T> values;
  for (const Processor& processor : processors)
    if (std::ranges::find(values, processor.*member) == values.end())
      values.push_back(processor.*member);
  return values;
}

template <class Wanted>
std::vector<Processor> those(const std::vector<Processor>& processors, const Wanted& wanted) {
  std::vector<Processor> found;
  std::ranges::copy_if(processors, std::back_inserter(found), wanted);
  return found;
}

std::vector<int> numbers(const std::vector<Processor>& processors) {
  std::vector<int> found;
  for (const Processor& processor : processors) found.push_back(processor.number);
  return found;
}

// The `part`th of `parts` shares of the cores, whole cores with all their threads.
std::vector<int> share_of_cores(const std::vector<Processor>& processors, std::size_t part,
                                std::size_t parts) {
  const auto cores = distinct(processors, &Processor::core);
  const std::size_t from = cores.size() * part / parts;
  // fewer cores than ranks: some share one
  const std::size_t to = std::max(from + 1, cores.size() * (part + 1) / parts);
  const std::set<int> own(cores.begin() + static_cast<std::ptrdiff_t>(from),
                          cores.begin() + static_cast<std::ptrdiff_t>(to));
  return numbers(
      those(processors, [&](const Processor& processor) { return own.contains(processor.core); }));
}

}  // namespace

#ifdef LOCKSTEP_HWLOC
Result<std::vector<Processor>> read_processors() {
  auto library = DynamicLibrary::open("libhwloc.so.15");
  if (!library)
    return Error{"ranks cannot be bound: libhwloc.so.15 is not here",
                 "apt-get install libhwloc15, or --bind=none"};
  const auto init =
      reinterpret_cast<decltype(&hwloc_topology_init)>(library->symbol("hwloc_topology_init"));
  const auto load =
      reinterpret_cast<decltype(&hwloc_topology_load)>(library->symbol("hwloc_topology_load"));
  const auto destroy = reinterpret_cast<decltype(&hwloc_topology_destroy)>(
      library->symbol("hwloc_topology_destroy"));
  const auto depth_of =
      reinterpret_cast<decltype(&hwloc_get_type_depth)>(library->symbol("hwloc_get_type_depth"));
  const auto count_at = reinterpret_cast<decltype(&hwloc_get_nbobjs_by_depth)>(
      library->symbol("hwloc_get_nbobjs_by_depth"));
  const auto object_at = reinterpret_cast<decltype(&hwloc_get_obj_by_depth)>(
      library->symbol("hwloc_get_obj_by_depth"));
  const auto first_of =
      reinterpret_cast<decltype(&hwloc_bitmap_first)>(library->symbol("hwloc_bitmap_first"));
  hwloc_topology_t topology = nullptr;
  if (init == nullptr || load == nullptr || destroy == nullptr || depth_of == nullptr ||
      count_at == nullptr || object_at == nullptr || first_of == nullptr || init(&topology) != 0 ||
      load(topology) != 0)
    return Error{"ranks cannot be bound: hwloc does not know this machine", "--bind=none"};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool limits = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
                      std::getenv("HWLOC_SYNTHETIC") == nullptr;
  std::vector<Processor> processors;
  const int depth = depth_of(topology, HWLOC_OBJ_PU);
  for (unsigned i = 0; i < count_at(topology, depth); ++i) {
    const hwloc_obj_t unit = object_at(topology, depth, i);
    if (limits && (unit->os_index >= CPU_SETSIZE || !CPU_ISSET(unit->os_index, &allowed))) continue;
    Processor processor;
    processor.number = static_cast<int>(unit->os_index);
    processor.core = static_cast<int>(unit->logical_index);  // where the machine names no cores
    processor.node = std::max(0, first_of(unit->nodeset));
    for (hwloc_obj_t above = unit->parent; above != nullptr; above = above->parent) {
      const int number = static_cast<int>(above->logical_index);
      if (above->type == HWLOC_OBJ_CORE) processor.core = number;
      if (above->type == HWLOC_OBJ_L3CACHE) processor.cache = number;
      if (above->type == HWLOC_OBJ_PACKAGE) processor.package = number;
    }
    processors.push_back(processor);
  }
  destroy(topology);
  if (processors.empty())
    return Error{"ranks cannot be bound: hwloc sees no processor that this process may use",
                 "--bind=none"};
  return processors;
}
#else
Result<std::vector<Processor>> read_processors() {
  return Error{"ranks cannot be bound: this lockstep was built without hwloc",
               "build it with libhwloc-dev installed, or --bind=none"};
}
#endif

std::vector<std::optional<int>> nodes_of_gpus(const Variables& around, int local_ranks) {
  // In the order of their addresses, which is nvidia-smi's; CUDA's own may differ where GPUs do
  // (CUDA_DEVICE_ORDER).
  std::set<std::string> addresses;
  std::error_code problem;
  for (fs::directory_iterator entry("/proc/driver/nvidia/gpus", problem), end;
       !problem && entry != end; entry.increment(problem)) {
    std::string address = entry->path().filename().string();
    std::ranges::transform(address, address.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    addresses.insert(address);
  }
  std::vector<std::optional<int>> of_gpu;
  for (const std::string& address : addresses) {
    const auto text = read_small_file("/sys/bus/pci/devices/" + address + "/numa_node", 32);
    const auto node = text ? parse_integer(trim(*text)) : std::nullopt;
    of_gpu.push_back(node && *node >= 0 ? std::optional(static_cast<int>(*node)) : std::nullopt);
  }
  std::vector<std::size_t> chosen;
  if (const auto list = around.find("CUDA_VISIBLE_DEVICES"); list != around.end()) {
    for (const std::string_view entry : split(list->second, ','))
      if (const auto index = parse_unsigned(trim(entry))) chosen.push_back(*index);
  } else {
    for (std::size_t i = 0; i < of_gpu.size(); ++i) chosen.push_back(i);
  }
  std::vector<std::optional<int>> nodes(static_cast<std::size_t>(local_ranks));
  for (std::size_t rank = 0; rank < nodes.size() && rank < chosen.size(); ++rank)
    if (chosen[rank] < of_gpu.size()) nodes[rank] = of_gpu[chosen[rank]];
  return nodes;
}

std::vector<RankBinding> bind_ranks(const std::vector<Processor>& processors,
                                    const std::vector<std::optional<int>>& gpu_nodes, Binding how) {
  const auto nodes = distinct(processors, &Processor::node);
  std::vector<RankBinding> ranks(gpu_nodes.size());
  std::map<int, std::vector<std::size_t>> on_node;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool known = gpu_nodes[rank] && std::ranges::find(nodes, *gpu_nodes[rank]) != nodes.end();
    // without a GPU: spread evenly
    ranks[rank].node = known ? *gpu_nodes[rank] : nodes[rank * nodes.size() / ranks.size()];
    on_node[ranks[rank].node].push_back(rank);
  }
  for (const auto& [node, members] : on_node) {
    const auto here = those(
        processors, [node = node](const Processor& processor) { return processor.node == node; });
    const auto caches = distinct(here, &Processor::cache);
    const auto packages = distinct(here, &Processor::package);
    for (std::size_t place = 0; place < members.size(); ++place) {
      RankBinding& rank = ranks[members[place]];
      switch (how) {
        case Binding::none: break;
        case Binding::node: rank.processors = numbers(here); break;
        case Binding::socket:
          rank.processors = numbers(those(processors, [&](const Processor& processor) {
            return processor.package == packages.front();
          }));
          break;
        case Binding::cores: rank.processors = share_of_cores(here, place, members.size()); break;
        case Binding::core_complex:
          rank.processors = numbers(those(here, [&](const Processor& processor) {
            return processor.cache == caches[place % caches.size()];
          }));
          break;
      }
    }
  }
  return ranks;
}

}  // namespace lockstep
