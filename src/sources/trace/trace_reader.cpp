#include "sources/trace/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/in_parallel.hpp"
#include "base/text.hpp"
#include "sources/trace/event_stream.hpp"
#include "sources/trace/json_text.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

struct CategoryName {
  std::string_view name;
  TraceCategory category;
};

// Those of Kineto since 1.10, and those of before.
constexpr std::array kCategories = {
    CategoryName{"cpu_op", TraceCategory::op},
    CategoryName{"cuda_runtime", TraceCategory::runtime},
    CategoryName{"kernel", TraceCategory::kernel},
    CategoryName{"python_function", TraceCategory::python},
    CategoryName{"user_annotation", TraceCategory::annotation},
    CategoryName{"gpu_memcpy", TraceCategory::copy},
    CategoryName{"gpu_memset", TraceCategory::set},
    CategoryName{"cuda_driver", TraceCategory::runtime},
    CategoryName{"gpu_user_annotation", TraceCategory::device_annotation},
    CategoryName{"cuda_sync", TraceCategory::device_sync},
    CategoryName{"Operator", TraceCategory::op},
    CategoryName{"Runtime", TraceCategory::runtime},
    CategoryName{"Kernel", TraceCategory::kernel},
    CategoryName{"Memcpy", TraceCategory::copy},
    CategoryName{"Memset", TraceCategory::set},
    CategoryName{"Python", TraceCategory::python},
    CategoryName{"mtia_ccp_events", TraceCategory::device_task},
    CategoryName{"mtia_runtime", TraceCategory::runtime},
    CategoryName{"xpu_runtime", TraceCategory::runtime},
    CategoryName{"privateuse1_runtime", TraceCategory::runtime},
    CategoryName{"privateuse1_driver", TraceCategory::runtime},
};

TraceCategory category_of(std::string_view name) {
  for (const CategoryName& entry : kCategories)
    if (entry.name == name) return entry.category;
  return TraceCategory::host_other;
}

// Operators whose Python lines are worth keeping: the host waits in them, or they feed the step.
bool leads_to_a_finding(std::string_view name) {
  return name == "aten::item" || name == "aten::_local_scalar_dense" ||
         name == "aten::is_nonzero" || name == "aten::nonzero" || name == "aten::to" ||
         name == "aten::_to_copy" || name == "aten::copy_" ||
         name.starts_with("enumerate(DataLoader)") || name.starts_with("Optimizer.step#");
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.empty()) return std::nullopt;
  if (end != text.data() + text.size()) {  // 7.0 is 7
    for (const char* at = end; at != text.data() + text.size(); ++at)
      if (*at != '.' && *at != '0') return std::nullopt;
  }
  return value;
}

bool is_fraction(std::string_view number) {
  return number.find_first_of(".eE") != std::string_view::npos;
}

double as_double(std::string_view number) {
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  return value;
}

std::uint64_t bytes_of_element(std::string_view type) {
  if (type == "Double" || type == "Long") return 8;
  if (type == "Float" || type == "Int") return 4;
  if (type == "Half" || type == "BFloat16" || type == "Short") return 2;
  return 1;
}

// Makes rows of events.
class RowMaker : public EventHandler {
 public:
  RowMaker(const TraceReading& how, std::atomic<std::uint64_t>& rows_of_all, RankTrace& trace)
      : how_(how), rows_of_all_(rows_of_all), trace_(trace) {}

  bool on_event(const TraceEvent& event) override {
    if (event.phase == EventPhase::begin) return begin_row(event);
    if (event.phase == EventPhase::end) return end_row(event);
    if (event.category.empty() || event.category == "Trace") return true;
    if (event.duration.empty() || event.duration == "null") {
      ++trace_.flaws.without_duration;
      return true;
    }
    auto start = nanoseconds_of(event.start);
    auto duration = nanoseconds_of(event.duration);
    if (!start || !duration) {
      ++trace_.flaws.without_duration;
      return true;
    }
    if (is_fraction(event.start)) {
      trace_.times_are_fractions = true;
      if (how_.round_like_hta) round_like_hta(event, *start, *duration);
    }
    if (*duration < 0 && !how_.round_like_hta) {
      ++trace_.flaws.negative_durations;
      *duration = 0;
    }
    return add_row(event, *start, *duration);
  }

  // What began and never ended goes on to the last moment that was seen, as viewers draw it.
  void end_open_rows() {
    if (open_.empty()) return;
    std::int64_t last_ns = INT64_MIN;
    for (const DeviceRow& row : trace_.device_rows) last_ns = std::max(last_ns, row.end_ns());
    for (const HostRow& row : trace_.host_rows) last_ns = std::max(last_ns, row.end_ns());
    for (auto& [thread, rows] : open_)
      for (const std::optional<OpenRow>& row : rows)
        if (row) end_at(*row, last_ns);
  }

 private:
  // A row that has begun: in which list, and where.
  struct OpenRow {
    bool on_device = false;
    std::size_t index = 0;
  };

  bool add_row(const TraceEvent& event, std::int64_t start, std::int64_t duration) {
    const TraceCategory category = known_category(event.category);
    if (is_on_device(category))
      add_device_row(event, category, start, duration);
    else
      add_host_row(event, category, start, duration);
    if (++rows_ % kCountedTogether == 0 &&
        rows_of_all_.fetch_add(kCountedTogether) + kCountedTogether > how_.most_rows) {
      trace_.flaws.too_long = true;
      return false;
    }
    return true;
  }

  // Begin and end come in two events of one thread, the innermost ends first. HTA knows neither.
  bool begin_row(const TraceEvent& event) {
    if (how_.round_like_hta) return true;
    std::vector<std::optional<OpenRow>>& rows = open_[thread_key(event)];
    if (rows.size() >= kDeepest) return true;
    const auto start = nanoseconds_of(event.start);
    if (!start || event.category.empty() || event.category == "Trace") {
      rows.push_back(std::nullopt);  // its end is no other's
      return true;
    }
    const bool on_device = is_on_device(known_category(event.category));
    rows.push_back(
        OpenRow{on_device, on_device ? trace_.device_rows.size() : trace_.host_rows.size()});
    return add_row(event, *start, 0);
  }

  bool end_row(const TraceEvent& event) {
    const auto found = open_.find(thread_key(event));
    if (found == open_.end() || found->second.empty()) return true;
    const std::optional<OpenRow> row = found->second.back();
    found->second.pop_back();
    const auto end = nanoseconds_of(event.start);
    if (row && end) end_at(*row, *end);
    return true;
  }

  void end_at(const OpenRow& open, std::int64_t end_ns) {
    const auto set = [&](auto& row) {
      if (end_ns < row.start_ns) ++trace_.flaws.negative_durations;
      row.duration_ns = std::max<std::int64_t>(0, end_ns - row.start_ns);
    };
    if (open.on_device)
      set(trace_.device_rows[open.index]);
    else
      set(trace_.host_rows[open.index]);
  }

  static std::string thread_key(const TraceEvent& event) {
    return std::string(event.process) + "/" + std::string(event.thread);
  }

  static constexpr std::size_t kDeepest = 10'000;  // of rows within each other on one thread
  static constexpr std::uint64_t kCountedTogether = 4096;

  static void round_like_hta(const TraceEvent& event, std::int64_t& start, std::int64_t& duration) {
    const double begin = as_double(event.start);
    const double end = begin + as_double(event.duration);
    start = static_cast<std::int64_t>(std::ceil(begin)) * 1000;
    duration = static_cast<std::int64_t>(std::floor(end)) * 1000 - start;
  }

  NameTable::Id id_of(std::string_view written) {
    if (written.find('\\') == std::string_view::npos) return trace_.names.intern(written);
    return trace_.names.intern(unescaped(written));
  }

  TraceCategory known_category(std::string_view name) {
    if (name != last_category_name_) {
      last_category_name_ = name;
      last_category_ = category_of(name);
    }
    return last_category_;
  }

  // What rows of both kinds have.
  template <class Row>
  Row row_of(const TraceEvent& event, TraceCategory category, std::int64_t start,
             std::int64_t duration) {
    Row row;
    row.start_ns = start;
    row.duration_ns = duration;
    row.category = category;
    row.name = id_of(event.name);
    row.correlation = integer(event.correlation).value_or(kNoCorrelation);
    row.stream = small(event.stream).value_or(kNoStream);
    return row;
  }

  void add_device_row(const TraceEvent& event, TraceCategory category, std::int64_t start,
                      std::int64_t duration) {
    auto row = row_of<DeviceRow>(event, category, start, duration);
    row.row_thread = small(event.thread).value_or(0);
    const auto device = small(event.device.empty() ? event.process : event.device);
    row.device = device && *device >= 0 && *device < 4096 ? static_cast<std::int16_t>(*device)
                                                          : std::int16_t{0};
    row.bytes =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, integer(event.bytes).value_or(0)));
    if (!event.collective.empty() || !event.group.empty()) {
      CollectiveFacts facts;
      facts.name = trace_.names[id_of(event.collective)];
      facts.group = trace_.names[id_of(event.group)];
      facts.group_size = small(event.group_size).value_or(0);
      facts.bytes = static_cast<std::uint64_t>(
                        std::max<std::int64_t>(0, integer(event.elements).value_or(0))) *
                    bytes_of_element(event.element_type);
      trace_.collectives.emplace_hint(trace_.collectives.end(),
                                      static_cast<std::uint32_t>(trace_.device_rows.size()), facts);
    }
    trace_.device_rows.push_back(row);
  }

  void add_host_row(const TraceEvent& event, TraceCategory category, std::int64_t start,
                    std::int64_t duration) {
    auto row = row_of<HostRow>(event, category, start, duration);
    row.thread = thread_of(event);
    const auto index = static_cast<std::uint32_t>(trace_.host_rows.size());
    if (event.index == 0) trace_.first_event_row = index;
    if (!event.call_stack.empty() && leads_to_a_finding(event.name))
      trace_.stacks.emplace_hint(trace_.stacks.end(), index, id_of(event.call_stack));
    trace_.host_rows.push_back(row);
  }

  static std::optional<std::int32_t> small(std::string_view text) {
    const auto value = integer(text);
    if (!value) return std::nullopt;
    // "all streams" is 4294967295
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(*value, INT32_MIN, INT32_MAX));
  }

  std::uint32_t thread_of(const TraceEvent& event) {
    if (!threads_.empty() && event.process == last_process_ && event.thread == last_thread_)
      return last_thread_index_;
    last_process_ = event.process;
    last_thread_ = event.thread;
    const auto [entry, is_new] = threads_.try_emplace(
        last_process_ + "/" + last_thread_, static_cast<std::uint32_t>(trace_.threads.size()));
    if (is_new)
      trace_.threads.push_back(
          {integer(event.process).value_or(-1), integer(event.thread).value_or(-1)});
    return last_thread_index_ = entry->second;
  }

  const TraceReading& how_;
  std::atomic<std::uint64_t>& rows_of_all_;
  RankTrace& trace_;
  std::uint64_t rows_ = 0;
  std::string last_category_name_;
  TraceCategory last_category_ = TraceCategory::host_other;
  std::unordered_map<std::string, std::uint32_t> threads_;
  std::string last_process_;
  std::string last_thread_;
  std::uint32_t last_thread_index_ = 0;
  std::unordered_map<std::string, std::vector<std::optional<OpenRow>>> open_;  // by thread
};

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::int64_t> integer_in(const Json& object, const char* key) {
  const Json* const value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_string()) return integer(value->get<std::string>());
  return std::nullopt;
}

std::string text_in(const Json& object, const char* key) {
  const Json* const value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

void take_device(const Json& told, RankTrace& trace) {
  GpuInfo info;
  info.index =
      static_cast<int>(std::clamp<std::int64_t>(integer_in(told, "id").value_or(0), 0, 4095));
  if (const std::string name = text_in(told, "name"); !name.empty()) info.name = name;
  if (const auto memory = integer_in(told, "totalGlobalMem"); memory && *memory > 0)
    info.memory_total_bytes = static_cast<std::uint64_t>(*memory);
  const auto major = integer_in(told, "computeMajor");
  if (major && *major > 0 && *major < 100)
    trace.compute_capability[info.index] = {
        static_cast<int>(*major), static_cast<int>(integer_in(told, "computeMinor").value_or(0))};
  trace.devices.push_back(std::move(info));
}

void take_facts(const std::vector<std::pair<std::string, std::string>>& told, RankTrace& trace) {
  Json facts = Json::object();
  for (const auto& [name, text] : told)
    if (Json value = Json::parse(text, nullptr, false); !value.is_discarded())
      facts[name] = std::move(value);
  if (const Json* const distributed = member(facts, "distributedInfo")) {
    if (const auto rank = integer_in(*distributed, "rank"); rank && *rank >= 0 && *rank < 1'000'000)
      trace.told_rank = static_cast<int>(*rank);
    if (const auto size = integer_in(*distributed, "world_size");
        size && *size > 0 && *size < 1'000'000)
      trace.world_size = static_cast<int>(*size);
    if (const std::string backend = text_in(*distributed, "backend"); !backend.empty())
      trace.backend = backend;
  }
  if (const Json* const devices = member(facts, "deviceProperties");
      devices != nullptr && devices->is_array())
    for (const Json& device : *devices) take_device(device, trace);
  constexpr std::int64_t kLatestNs = INT64_MAX / 4;  // the year 2043
  trace.base_unix_ns =
      std::clamp<std::int64_t>(integer_in(facts, "baseTimeNanoseconds").value_or(0), 0, kLatestNs);
  trace.host = text_in(facts, "host_name");
}

// MTIA says so by its backend, or by the call that submits its work.
bool is_mtia(const RankTrace& trace) {
  if (trace.backend && trace.backend->find("mtia:hccl") != std::string::npos) return true;
  bool submits = false;
  for (NameTable::Id id = 0; id < trace.names.size(); ++id) {
    if (trace.names[id] == "cudaLaunchKernel" || trace.names[id] == "hipLaunchKernel") return false;
    submits = submits || trace.names[id] == "runFunction - job_prep_and_submit_for_execution";
  }
  return submits;
}

Result<RankTrace> read_one(TraceBytes& bytes, const std::string& name, const TraceReading& how,
                           std::atomic<std::uint64_t>& rows_of_all) {
  RankTrace trace;
  trace.file = name;
  RowMaker maker(how, rows_of_all, trace);
  const StreamEnd end = read_events(bytes, maker);
  maker.end_open_rows();
  if (!end.is_trace)
    return Error{fmt::format("{} is no trace: no list of events was found in it", printable(name)),
                 "give what torch.profiler's export_chrome_trace wrote, plain or as .gz"};
  trace.bytes = end.bytes;
  trace.events = end.events;
  trace.flaws.unreadable_events = end.unreadable;
  trace.flaws.damaged = bytes.damaged();
  trace.flaws.cut = end.cut && !end.stopped;
  take_facts(end.facts, trace);
  trace.is_mtia = is_mtia(trace);
  return trace;
}

}  // namespace

std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds) {
  // sums of a begin, a length and a base still fit
  constexpr std::int64_t kMost = INT64_MAX / 4000;
  std::size_t at = 0;
  const bool negative = !microseconds.empty() && microseconds.front() == '-';
  if (negative) ++at;
  std::int64_t whole = 0;
  const std::size_t digits_from = at;
  for (; at < microseconds.size() && microseconds[at] >= '0' && microseconds[at] <= '9'; ++at) {
    whole = 10 * whole + (microseconds[at] - '0');
    if (whole > kMost) return std::nullopt;
  }
  if (at == digits_from) return std::nullopt;
  std::int64_t thousandths = 0;
  if (at < microseconds.size() && microseconds[at] == '.') {
    ++at;
    for (std::int64_t unit = 100; unit > 0; unit /= 10)
      if (at < microseconds.size() && microseconds[at] >= '0' && microseconds[at] <= '9')
        thousandths += unit * (microseconds[at++] - '0');
    if (at < microseconds.size() && microseconds[at] >= '5' && microseconds[at] <= '9')
      ++thousandths;
    while (at < microseconds.size() && microseconds[at] >= '0' && microseconds[at] <= '9') ++at;
  }
  if (at != microseconds.size()) {  // 1.5e6
    double value = 0;
    const auto [end, error] =
        std::from_chars(microseconds.data(), microseconds.data() + microseconds.size(), value);
    if (error != std::errc() || end != microseconds.data() + microseconds.size() ||
        std::abs(value) > static_cast<double>(kMost))
      return std::nullopt;
    return std::llround(value * 1000);
  }
  const std::int64_t result = whole * 1000 + thousandths;
  return negative ? -result : result;
}

Result<RankTrace> read_trace(TraceBytes& bytes, const std::string& name, const TraceReading& how) {
  std::atomic<std::uint64_t> rows = 0;
  return read_one(bytes, name, how, rows);
}

Result<RankTrace> read_trace(const std::filesystem::path& path, const TraceReading& how) {
  auto bytes = TRY(TraceBytes::open(path));
  return read_trace(*bytes, path.string(), how);
}

Result<std::vector<RankTrace>> read_traces(const std::vector<std::string>& paths,
                                           const TraceReading& how) {
  std::vector<std::optional<Result<RankTrace>>> results(paths.size());
  std::atomic<std::uint64_t> rows = 0;
  in_parallel(paths.size(), 1, [&](std::size_t i) {
    auto bytes = TraceBytes::open(paths[i]);
    if (bytes)
      results[i].emplace(read_one(**bytes, paths[i], how, rows));
    else
      results[i].emplace(std::move(bytes).error());
  });
  std::vector<RankTrace> traces;
  for (std::optional<Result<RankTrace>>& result : results) {
    if (!*result) return std::move(*result).error();
    traces.push_back(std::move(**result));
  }
  return traces;
}

bool looks_like_trace(std::string_view start) {
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  start = trim(start);
  if (start.starts_with('{')) return start.find("\"traceEvents\"") != std::string_view::npos;
  if (!start.starts_with('[')) return false;
  const std::string_view first = trim(start.substr(1)).substr(0, 4096);
  return first.starts_with('{') && first.find("\"ph\"") != std::string_view::npos;
}

}  // namespace lockstep
