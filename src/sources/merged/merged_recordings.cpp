#include "sources/merged/merged_recordings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/median.hpp"
#include "base/text.hpp"
#include "lockstep/reported_finding.hpp"
#include "lockstep/several_machines.hpp"
#include "recording/reader.hpp"
#include "sources/merged/clock_alignment.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostHosts = 200;  // pids are numbers of 31 bits

// A look through a file before it is read: whose it is, and when its steps ended.
struct Survey {
  Machine machine;
  std::map<int, std::map<std::int64_t, double>> ends_unix_ms;  // by rank and step
  std::vector<double> lengths_ms;

  void begin_at(std::int64_t unix_ns) {
    const double later_ms =
        (static_cast<double>(unix_ns) - static_cast<double>(machine.started_unix_ns)) / 1e6;
    machine.started_unix_ns = unix_ns;
    for (auto& [rank, ends] : ends_unix_ms)
      for (auto& [index, end] : ends) end += later_ms;
  }
};

Result<Survey> survey(const std::string& path) {
  auto reader = TRY(RecordingReader::open(path));
  Survey seen;
  seen.machine = reader.machine();
  const double start_ms = static_cast<double>(seen.machine.started_unix_ns) / 1e6;
  while (const auto record = reader.next())
    if (const auto* step = std::get_if<StepMark>(&record->content)) {
      seen.ends_unix_ms[step->rank][step->index] = start_ms + record->t_ms;
      seen.lengths_ms.push_back(step->duration_ms);
    }
  return seen;
}

// Of all ranks of a machine: a step ends for the machine when the middle one of those that have it
// ends it.
StepEnds ends_of(const std::vector<const Survey*>& surveys) {
  std::map<std::int64_t, std::vector<double>> all;
  std::vector<double> lengths;
  std::set<int> ranks;
  for (const Survey* seen : surveys) {
    lengths.insert(lengths.end(), seen->lengths_ms.begin(), seen->lengths_ms.end());
    for (const auto& [rank, ends] : seen->ends_unix_ms)
      if (ranks.insert(rank).second)
        for (const auto& [index, end] : ends) all[index].push_back(end);
  }
  StepEnds ends;
  ends.usual_ms = middle_value(std::move(lengths));
  for (auto& [index, times] : all) ends.end_ms[index] = middle_value(std::move(times));
  return ends;
}

// One of the files, read for the second time.
struct Part {
  RecordingReader reader;
  std::string name;
  std::size_t host = 0;
  std::optional<ClockOffset> clock;  // nothing: as it is
  double start_unix_ms = 0;
  // its own number to the common one; one that is not here is another file's
  std::map<int, int> gpus;
  std::set<int> ranks_of_others;   // steps that another file of the same machine tells
  std::optional<Record> upcoming;  // on the common clock
};

class MergedSource : public Source {
 public:
  MergedSource(Machine machine, std::vector<Part> parts, std::vector<std::string> hosts,
               std::vector<NotMeasured> missing)
      : machine_(std::move(machine)),
        parts_(std::move(parts)),
        hosts_(std::move(hosts)),
        missing_(std::move(missing)),
        processes_(parts_.size()) {
    for (Part& part : parts_) advance(part);
  }

  SourceKind kind() const override { return SourceKind::recording; }
  std::string detail() const override {
    return fmt::format("{} recordings of {} {}, {} the first", parts_.size(), hosts_.size(),
                       hosts_.size() == 1 ? "machine" : "machines", parts_.front().name);
  }
  SourceFacts facts() const override { return {}; }
  const Machine& machine() const override { return machine_; }
  std::vector<NotMeasured> not_measured() const override { return missing_; }

  Result<NextRecord> next(std::chrono::milliseconds) override {
    Part* first = nullptr;
    for (Part& part : parts_)
      if (part.upcoming && (first == nullptr || part.upcoming->t_ms < first->upcoming->t_ms))
        first = &part;
    if (first == nullptr) return NextRecord(EndOfInput{});
    Record record = std::move(*first->upcoming);
    advance(*first);
    // A list names all processes that its file knows; one of all files has the newest of each.
    if (auto* list = std::get_if<ProcessTick>(&record.content)) {
      processes_[static_cast<std::size_t>(first - parts_.data())] = std::move(*list);
      std::map<int, ProcessSample> all;
      for (const ProcessTick& of_file : processes_)
        for (const ProcessSample& process : of_file) {
          const auto [known, is_new] = all.emplace(process.pid, process);
          if (!is_new)
            known->second.gpus.insert(known->second.gpus.end(), process.gpus.begin(),
                                      process.gpus.end());
        }
      list->clear();
      for (auto& [pid, process] : all) list->push_back(std::move(process));
    }
    return NextRecord(std::move(record));
  }

  std::optional<std::string> repair_note() const override {
    std::vector<std::string> notes;
    for (const Part& part : parts_)
      if (const ReadLosses losses = part.reader.losses(); losses.any())
        notes.push_back(fmt::format("{}: {}", printable(part.name), describe(losses)));
    if (notes.empty()) return std::nullopt;
    return join(notes, "; ") + "; the rest was read";
  }

 private:
  double common_ms(const Part& part, double t_ms) const {
    const double unix_ms = part.start_unix_ms + t_ms;
    return (part.clock ? part.clock->aligned(unix_ms) : unix_ms) -
           static_cast<double>(machine_.started_unix_ns) / 1e6;
  }

  // Linux counts to four million; whoever writes more is no Linux.
  static int common_pid(std::size_t host, int pid) {
    return MachinePid::of(static_cast<int>(host), pid).number();
  }

  // The part's next record that is its own to tell, in common numbers and on the common clock.
  void advance(Part& part) {
    part.upcoming.reset();
    while (auto record = part.reader.next()) {
      if (!take(part, *record)) continue;
      record->t_ms = common_ms(part, record->t_ms);
      part.upcoming = std::move(record);
      return;
    }
  }

  // Whether anything of it is left.
  bool take(const Part& part, Record& record) {
    if (auto* tick = std::get_if<GpuTick>(&record.content)) {
      std::erase_if(*tick,
                    [&](const GpuSample& sample) { return !part.gpus.contains(sample.index); });
      for (GpuSample& sample : *tick) {
        sample.index = part.gpus.at(sample.index);
        if (auto samples = sample.power_samples.value(); samples && samples->first_ms) {
          samples->first_ms = common_ms(part, *samples->first_ms);
          sample.power_samples = std::move(*samples);
        }
      }
      return !tick->empty();
    }
    if (auto* list = std::get_if<ProcessTick>(&record.content)) {
      for (ProcessSample& process : *list) {
        process.pid = common_pid(part.host, process.pid);
        if (process.parent_pid) process.parent_pid = common_pid(part.host, *process.parent_pid);
        std::erase_if(process.gpus,
                      [&](const ProcessOnGpu& use) { return !part.gpus.contains(use.index); });
        for (ProcessOnGpu& use : process.gpus) use.index = part.gpus.at(use.index);
      }
      return !part.gpus.empty();
    }
    if (const auto* step = std::get_if<StepMark>(&record.content))
      return !part.ranks_of_others.contains(step->rank);
    if (auto* event = std::get_if<Event>(&record.content)) {
      if (!event->gpu) return true;
      const auto gpu = part.gpus.find(*event->gpu);
      if (gpu == part.gpus.end()) return false;
      event->gpu = gpu->second;
      if (auto told = reported_finding(*event)) {
        std::erase_if(told->gpus, [&](int own) { return !part.gpus.contains(own); });
        for (int& own : told->gpus) own = part.gpus.at(own);
        *event = event_of(*told);
      }
      return true;
    }
    if (auto* fact = std::get_if<ProbeFact>(&record.content)) {
      fact->pid = common_pid(part.host, fact->pid);
      return !part.ranks_of_others.contains(fact->rank);
    }
    if (auto* call = std::get_if<CollectiveCall>(&record.content)) {
      call->pid = common_pid(part.host, call->pid);
      call->called_ms = common_ms(part, call->called_ms);
      call->queued_ms = common_ms(part, call->queued_ms);
      if (call->begin_ms) call->begin_ms = common_ms(part, *call->begin_ms);
      if (call->end_ms) call->end_ms = common_ms(part, *call->end_ms);
      return !part.ranks_of_others.contains(call->rank);
    }
    if (auto* census = std::get_if<CommunicatorCensus>(&record.content))
      for (Communicator& communicator : census->communicators)
        for (CommunicatorRank& rank : communicator.ranks)
          if (const auto host = std::ranges::find(hosts_, rank.host); host != hosts_.end())
            rank.pid = common_pid(static_cast<std::size_t>(host - hosts_.begin()), rank.pid);
    return true;
  }

  Machine machine_;
  std::vector<Part> parts_;
  std::vector<std::string> hosts_;
  std::vector<NotMeasured> missing_;
  std::vector<ProcessTick> processes_;  // the newest of each file
};

// One of the machines, and the files that are of it.
struct RecordedHost {
  std::string name;  // no other has it
  std::string own_name;
  std::set<std::string> uuids;
  std::vector<std::size_t> files;
};

// Of real GPUs: virtual ones have the same names everywhere.
std::set<std::string> uuids_of(const Machine& machine) {
  std::set<std::string> uuids;
  for (const GpuInfo& gpu : machine.gpus)
    if (gpu.uuid && !is_virtual(gpu)) uuids.insert(*gpu.uuid);
  return uuids;
}

bool share_one(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& entry) { return b.contains(entry); });
}

// Two files are of one machine where a GPU is in both, or where the names are equal and no GPU says
// otherwise: many machines are called localhost.
std::vector<RecordedHost> hosts_in(const std::vector<Survey>& surveys,
                                   const std::vector<std::string>& paths) {
  std::vector<RecordedHost> hosts;
  for (std::size_t i = 0; i < surveys.size(); ++i) {
    const std::string own_name = surveys[i].machine.host.value_or("");
    const std::set<std::string> uuids = uuids_of(surveys[i].machine);
    auto known = std::ranges::find_if(hosts, [&](const RecordedHost& host) {
      if (share_one(host.uuids, uuids)) return true;
      return !own_name.empty() && host.own_name == own_name &&
             (uuids.empty() || host.uuids.empty());
    });
    if (known == hosts.end()) {
      std::string name =
          own_name.empty() ? std::filesystem::path(paths[i]).stem().string() : own_name;
      if (std::ranges::any_of(hosts, [&](const RecordedHost& host) { return host.name == name; }))
        name = own_name.empty() ? paths[i] : fmt::format("{} ({})", own_name, paths[i]);
      known = hosts.insert(hosts.end(), {name, own_name, {}, {}});
    }
    known->uuids.insert(uuids.begin(), uuids.end());
    known->files.push_back(i);
  }
  return hosts;
}

// The GPUs of a file that no file before it has, counted on from those. A fleet's recording knows
// their machines itself.
std::map<int, int> place_gpus(const Survey& seen, const std::string& host,
                              std::vector<GpuInfo>& all) {
  std::map<int, int> places;
  std::map<int, int> common;  // of all of them, for slices
  const std::size_t before = all.size();
  for (const GpuInfo& gpu : seen.machine.gpus) {
    GpuInfo placed = gpu;
    placed.index = static_cast<int>(all.size());
    placed.host = gpu.host.value_or(host);
    placed.host_index = gpu.host_index.value_or(gpu.index);
    const auto old_end = all.begin() + static_cast<std::ptrdiff_t>(before);
    const auto same = std::find_if(all.begin(), old_end, [&](const GpuInfo& known) {
      return known.host == placed.host &&
             (gpu.uuid && known.uuid ? *gpu.uuid == *known.uuid
                                     : known.host_index == placed.host_index);
    });
    common[gpu.index] = same != old_end ? same->index : placed.index;
    if (same != old_end) continue;
    places[gpu.index] = placed.index;
    if (placed.mig && common.contains(placed.mig->parent))
      placed.mig->parent = common[placed.mig->parent];
    all.push_back(std::move(placed));
  }
  return places;
}

// The machine whose clock is taken: the first that tells steps.
std::size_t reference_of(const std::vector<RecordedHost>& hosts,
                         const std::vector<Survey>& surveys) {
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (const std::size_t file : hosts[host].files)
      if (!surveys[file].ends_unix_ms.empty()) return host;
  return 0;
}

std::set<int> ranks_of(const RecordedHost& host, const std::vector<Survey>& surveys) {
  std::set<int> ranks;
  for (const std::size_t file : host.files)
    for (const auto& [rank, ends] : surveys[file].ends_unix_ms) ranks.insert(rank);
  return ranks;
}

struct AlignedClocks {
  std::vector<std::optional<ClockOffset>> offsets;  // by host
  std::vector<HostClock> told;                      // the reference first
  std::vector<NotMeasured> missing;
};

// Machines with a rank of the same number train different models: equal steps would end together by
// chance, at any distance.
AlignedClocks align_hosts(const std::vector<RecordedHost>& hosts,
                          const std::vector<Survey>& surveys,
                          const std::vector<std::string>& paths) {
  AlignedClocks clocks;
  clocks.offsets.resize(hosts.size());
  const std::size_t reference = reference_of(hosts, surveys);
  const auto surveys_of = [&](std::size_t host) {
    std::vector<const Survey*> files;
    for (const std::size_t file : hosts[host].files) files.push_back(&surveys[file]);
    return files;
  };
  const StepEnds first = ends_of(surveys_of(reference));
  const std::set<int> first_ranks = ranks_of(hosts[reference], surveys);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    HostClock clock;
    clock.host = hosts[host].name;
    clock.input = paths[hosts[host].files.front()];
    if (host == reference) {
      clocks.told.insert(clocks.told.begin(), clock);
      continue;
    }
    const std::set<int> ranks = ranks_of(hosts[host], surveys);
    const auto twice =
        std::ranges::find_if(ranks, [&](int rank) { return first_ranks.contains(rank); });
    if (twice != ranks.end()) {
      clocks.missing.push_back({"clock of " + clock.host,
                                fmt::format("it has a rank {} as {} has: the recordings are not of "
                                            "one job, and its own clock is taken as it is",
                                            *twice, hosts[reference].name)});
    } else if (auto offset = align_clocks(first, ends_of(surveys_of(host)))) {
      clock.ahead_ms = offset->ahead_ms;
      clock.drift_ppm = offset->drift_ppm;
      clock.error_ms = offset->error_ms;
      clock.matched_steps = offset->matched;
      clocks.offsets[host] = offset;
    } else {
      clocks.missing.push_back(
          {"clock of " + clock.host,
           "no steps that end together with those of " + hosts[reference].name +
               ": its own clock is taken as it is, and lanes of the two may be shifted"});
    }
    clocks.told.push_back(std::move(clock));
  }
  return clocks;
}

}  // namespace

Result<std::unique_ptr<Source>> open_merged_recordings(const std::vector<std::string>& paths) {
  std::vector<Survey> surveys;
  for (const std::string& path : paths) {
    auto seen = TRY(survey(path));
    surveys.push_back(std::move(seen));
  }
  // One that does not say when it began is taken to have begun with the first.
  for (Survey& seen : surveys)
    if (seen.machine.started_unix_ns <= 0) seen.begin_at(surveys.front().machine.started_unix_ns);
  const std::vector<RecordedHost> hosts = hosts_in(surveys, paths);
  if (hosts.size() > kMostHosts)
    return usage_error(fmt::format("recordings of {} machines at once", hosts.size()),
                       fmt::format("at most {}: diagnose them in groups", kMostHosts));
  AlignedClocks clocks = align_hosts(hosts, surveys, paths);

  Machine machine = surveys.front().machine;
  machine.gpus.clear();
  machine.peer_to_peer.reset();
  if (hosts.size() > 1) machine.clocks = clocks.told;
  std::vector<Part> parts;
  double start_unix_ms = 0;
  std::map<int, std::size_t> host_of_rank;
  std::vector<std::string> names;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    names.push_back(hosts[host].name);
    for (const std::size_t file : hosts[host].files) {
      auto reader = TRY(RecordingReader::open(paths[file]));
      Part part{std::move(reader),
                paths[file],
                host,
                clocks.offsets[host],
                static_cast<double>(surveys[file].machine.started_unix_ns) / 1e6,
                {},
                {},
                std::nullopt};
      part.gpus = place_gpus(surveys[file], hosts[host].name, machine.gpus);
      for (const auto& [rank, ends] : surveys[file].ends_unix_ms) {
        const auto [teller, is_first] = host_of_rank.emplace(rank, host);
        if (is_first) continue;
        part.ranks_of_others.insert(rank);
        if (teller->second != host)
          clocks.missing.push_back({"steps of " + hosts[host].name,
                                    fmt::format("{} has a rank {}, too: one job has a rank once, "
                                                "and the steps of the second are left out",
                                                hosts[teller->second].name, rank)});
      }
      const double start =
          part.clock ? part.clock->aligned(part.start_unix_ms) : part.start_unix_ms;
      start_unix_ms = parts.empty() ? start : std::min(start_unix_ms, start);
      machine.process_coverage =
          std::max(machine.process_coverage, surveys[file].machine.process_coverage);
      parts.push_back(std::move(part));
    }
  }
  constexpr double kLatest_ns = 9.2e18;  // in the year 2261; what a file says may be anything
  machine.started_unix_ns =
      static_cast<std::int64_t>(std::clamp(start_unix_ms * 1e6, 0.0, kLatest_ns));
  machine.host.reset();
  const bool one_machine =
      hosts.size() == 1 && std::ranges::all_of(machine.gpus, [&](const GpuInfo& gpu) {
        return gpu.host == hosts.front().name;
      });
  if (one_machine) {
    machine.host = hosts.front().name;
    for (GpuInfo& gpu : machine.gpus) gpu.host.reset();
  }
  return std::unique_ptr<Source>(std::make_unique<MergedSource>(
      std::move(machine), std::move(parts), std::move(names), std::move(clocks.missing)));
}

}  // namespace lockstep
