#include "sources/probe/step_accountant.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::uint64_t kLongestSpanNs = 86'400ULL * 1'000'000'000ULL;  // a day: more is damage
constexpr std::size_t kMostSpansOfAStep = 20'000;
constexpr double kHalfNanosecondMs = 5e-7;  // pieces that touch do not lie within each other
// the last kernels of a step, and the event's own way through the queue
constexpr double kQueuedToDoneMs = 0.1;
constexpr double kQueuedToDoneShare = 0.02;
constexpr std::size_t kMostLooks = 100'000;
constexpr std::size_t kMostPlaces = 20'000;
constexpr char kDriverWait[] = "wait for the GPU";
// of CUPTI: a buffer is handed over when it is full, which may be seconds of tiny steps
constexpr std::size_t kStepsUntilBufferCame = 2'000;
constexpr std::uint64_t kWaitWorthTellingNs = 20'000;
// one step in four is asked, and the answer is read when the next is
constexpr std::size_t kStepsUntilGpuTold = 10;

double ms(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

std::string text_of(const char* field, std::size_t bytes) {
  return {field, ::strnlen(field, bytes)};
}

bool is_sound(const lockstep_span_record& span) {
  return span.end_ns >= span.begin_ns && span.end_ns - span.begin_ns <= kLongestSpanNs &&
         span.busy_ns <= span.end_ns - span.begin_ns && span.count > 0 &&
         span.part < kStepSpanNames.size() && span.part != LOCKSTEP_SPAN_COLLECTIVE_HIDDEN;
}

bool keeps_what_lies_within(StepPart part) {
  return part == StepPart::checkpoint || part == StepPart::evaluation;
}

StepPiece piece_of(const lockstep_span_record& span, std::shared_ptr<const CodePlace> place,
                   std::uint64_t step_begin) {
  StepPiece piece;
  piece.part = static_cast<StepPart>(span.part);
  piece.place = std::move(place);
  piece.from_ms = ms(span.begin_ns > step_begin ? span.begin_ns - step_begin : 0);
  piece.length_ms = ms(span.end_ns - std::max(span.begin_ns, step_begin));
  piece.count = span.count;
  piece.bytes = span.bytes;
  piece.subject = span.subject;
  piece.on_device = (span.flags & LOCKSTEP_FLAG_ON_DEVICE) != 0;
  piece.pageable = (span.flags & LOCKSTEP_FLAG_PAGEABLE) != 0;
  piece.blocking = (span.flags & LOCKSTEP_FLAG_BLOCKING) != 0;
  return piece;
}

double overlap(double from, double to, double other_from, double other_to) {
  return std::max(0.0, std::min(to, other_to) - std::max(from, other_from));
}

const StepPiece* innermost_around(const std::vector<StepPiece>& pieces, double from, double to) {
  const StepPiece* around = nullptr;
  for (const StepPiece& piece : pieces)
    if (piece.count == 1 && piece.from_ms <= from && piece.from_ms + piece.length_ms >= to &&
        (around == nullptr || piece.length_ms <= around->length_ms))
      around = &piece;
  return around;
}

bool is_torchs_work(StepPart part) {
  return part == StepPart::forward || part == StepPart::backward || part == StepPart::optimizer;
}

// Pieces of one thread lie within each other or apart. Gives each the time that no inner one has,
// takes away what lies within a checkpoint or an evaluation, and returns the stretches that none
// covers.
std::vector<StepRest> nest(std::vector<StepPiece>& pieces, double duration_ms) {
  std::ranges::sort(pieces, [](const StepPiece& a, const StepPiece& b) {
    return a.from_ms != b.from_ms ? a.from_ms < b.from_ms : a.length_ms > b.length_ms;
  });
  std::vector<StepPiece> kept;
  std::vector<StepRest> rests;
  // positions in `kept` of the pieces that are open, outermost first
  std::vector<std::size_t> around;
  double covered_to = 0;
  std::shared_ptr<const CodePlace> last;
  for (StepPiece& piece : pieces) {
    while (!around.empty() && kept[around.back()].from_ms + kept[around.back()].length_ms <=
                                  piece.from_ms + kHalfNanosecondMs)
      around.pop_back();
    if (!around.empty()) {
      const StepPiece& outer = kept[around.back()];
      if (keeps_what_lies_within(outer.part)) continue;
      piece.length_ms = std::min(piece.length_ms, outer.from_ms + outer.length_ms - piece.from_ms);
      kept[around.back()].own_ms -= piece.length_ms;
    } else if (piece.from_ms > covered_to) {
      rests.push_back({covered_to, piece.from_ms - covered_to, last, piece.place, {}});
    }
    piece.own_ms = piece.length_ms;
    if (around.empty()) last = piece.place;
    covered_to = std::max(covered_to, piece.from_ms + piece.length_ms);
    kept.push_back(std::move(piece));
    around.push_back(kept.size() - 1);
  }
  if (duration_ms > covered_to)
    rests.push_back({covered_to, duration_ms - covered_to, last, nullptr, {}});
  pieces = std::move(kept);
  return rests;
}

// The innermost piece at every moment.
std::vector<HostStretch> stretches_of(const std::vector<StepPiece>& pieces, std::uint64_t begin_ns,
                                      std::uint64_t end_ns) {
  std::vector<HostStretch> stretches;
  std::vector<const StepPiece*> around;
  double now = 0;
  const auto until = [&](double to, StepPart part) {
    if (to <= now) return;
    const auto at = [&](double offset) {
      return std::min(end_ns, begin_ns + static_cast<std::uint64_t>(offset * 1e6));
    };
    stretches.push_back({at(now), at(to), part});
    now = to;
  };
  const auto close = [&](double to) {
    while (!around.empty() && around.back()->from_ms + around.back()->length_ms <= to) {
      until(around.back()->from_ms + around.back()->length_ms, around.back()->part);
      around.pop_back();
    }
  };
  for (const StepPiece& piece : pieces) {
    if (piece.count > 1) continue;  // summed up: it has no place of its own
    close(piece.from_ms);
    until(piece.from_ms, around.empty() ? StepPart::other : around.back()->part);
    around.push_back(&piece);
  }
  close(ms(end_ns - begin_ns) + 1);
  until(ms(end_ns - begin_ns), StepPart::other);
  return stretches;
}

// Short calls have no place in time of their own: what they took is taken from the piece that holds
// them all, else from the rest.
void add_summed(std::vector<StepPiece>& pieces, std::vector<StepRest>& rests,
                std::vector<StepPiece> summed) {
  for (StepPiece& sum : summed) {
    StepPiece* holder = nullptr;
    for (StepPiece& piece : pieces)
      if (piece.count == 1 && piece.from_ms <= sum.from_ms &&
          piece.from_ms + piece.length_ms >= sum.from_ms + sum.length_ms &&
          (holder == nullptr || piece.length_ms <= holder->length_ms))
        holder = &piece;
    if (holder != nullptr && keeps_what_lies_within(holder->part)) continue;
    if (holder != nullptr) {
      sum.own_ms = std::min(sum.own_ms, holder->own_ms);
      holder->own_ms -= sum.own_ms;
      continue;
    }
    double left = sum.own_ms;
    for (StepRest& rest : rests) {
      const double taken = std::min({left, rest.length_ms,
                                     overlap(rest.from_ms, rest.from_ms + rest.length_ms,
                                             sum.from_ms, sum.from_ms + sum.length_ms)});
      rest.length_ms -= taken;
      left -= taken;
    }
    sum.own_ms -= left;
  }
  for (StepPiece& sum : summed)
    if (sum.own_ms > 0) pieces.push_back(std::move(sum));
}

}  // namespace

std::shared_ptr<const CodePlace> StepAccountant::place_of(const char* file, std::size_t file_bytes,
                                                          std::uint32_t line,
                                                          std::uint32_t loop_line, const char* what,
                                                          std::size_t what_bytes) {
  const auto number = [](std::uint32_t value) {
    return value <= 0x7FFFFFFF ? static_cast<int>(value) : 0;
  };
  CodePlace place{text_of(file, file_bytes), number(line), text_of(what, what_bytes),
                  number(loop_line)};
  const auto found = places_.find(place);
  if (found != places_.end()) return found->second;
  auto shared = std::make_shared<const CodePlace>(place);
  if (places_.size() < kMostPlaces) places_.emplace(std::move(place), shared);
  return shared;
}

void StepAccountant::add(const lockstep_span_record& span) {
  if (!is_sound(span) || (span.flags & LOCKSTEP_FLAG_OTHER_THREAD) != 0) return;
  if ((span.flags & LOCKSTEP_FLAG_GPU_IDLE) != 0) {
    gpu_speaks_ = true;
    gpu_idle_.emplace_back(span.begin_ns, span.end_ns);
    return;
  }
  if (span.part == LOCKSTEP_SPAN_FORWARD && (span.flags & LOCKSTEP_FLAG_NO_TRAINING) == 0) {
    if (learning_modules_.size() < 1000) learning_modules_.insert(span.subject);
    for (auto earlier = open_.rbegin(); earlier != open_.rend(); ++earlier)
      if (earlier->record.part == LOCKSTEP_SPAN_DATA_WAIT &&
          (earlier->record.flags & LOCKSTEP_FLAG_SUMMED) == 0) {
        training_loader_ = earlier->record.subject;
        break;
      }
  }
  if (open_.size() < kMostSpansOfAStep)
    open_.push_back({span, place_of(span.file, sizeof span.file, span.line, span.loop_line,
                                    span.what, sizeof span.what)});
  if ((span.flags & LOCKSTEP_FLAG_STEP_END) == 0) return;
  if (last_end_ns_ && span.end_ns > *last_end_ns_)
    waiting_.push_back({next_index_, *last_end_ns_, span.end_ns, std::move(open_)});
  ++next_index_;
  open_.clear();
  last_end_ns_ = span.end_ns;
}

void StepAccountant::add_host(const lockstep_span_record& span) {
  if (!is_sound(span)) return;
  if (span.part == LOCKSTEP_SPAN_SYNC) {
    if ((span.flags & LOCKSTEP_FLAG_OTHER_THREAD) == 0)  // who prefetches takes none of its time
      device_.add(DeviceAccountant::Wait{span.begin_ns, span.end_ns,
                                         (span.flags & LOCKSTEP_FLAG_AUTOGRAD) != 0
                                             ? DeviceAccountant::WaitOf::autograd
                                             : DeviceAccountant::WaitOf::training_thread});
    return;
  }
  host_.push_back({span, place_of(span.file, sizeof span.file, 0, 0, span.what, sizeof span.what)});
  while (host_.size() > kMostLooks) host_.pop_front();
}

void StepAccountant::add(const lockstep_sample& sample) {
  if (sample.weight_ns > kLongestSpanNs) return;
  looks_.push_back({sample.at_ns, sample.weight_ns,
                    place_of(sample.file, sizeof sample.file, sample.line, sample.loop_line,
                             sample.stack, sizeof sample.stack)});
  while (looks_.size() > kMostLooks) looks_.pop_front();
}

std::vector<StepAccountant::Step> StepAccountant::take(Until until) {
  std::vector<Step> steps;
  while (!waiting_.empty()) {
    const std::size_t kept_back =
        device_.speaks()
            ? (device_.may_learn_of(waiting_.front().end_ns) ? kStepsUntilBufferCame : 0)
        : gpu_speaks_ ? kStepsUntilGpuTold
                      : 1;
    const bool settled = until == Until::end || waiting_.size() > kept_back;
    if (!settled) break;
    steps.push_back(account(waiting_.front()));
    waiting_.pop_front();
  }
  return steps;
}

// Passes without training, of a module that also trains, with what lies between them: a teacher's
// pass in each step is none.
void StepAccountant::add_evaluation(const Raw& raw, std::vector<Span>& spans) const {
  std::optional<Span> open;
  std::uint64_t from = raw.begin_ns;
  std::uint64_t wait_begins = 0;
  std::vector<Span> found;
  const auto close = [&] {
    if (open) found.push_back(*open);
    open.reset();
  };
  for (const Span& span : spans) {
    const lockstep_span_record& record = span.record;
    const bool summed = (record.flags & LOCKSTEP_FLAG_SUMMED) != 0;
    if (record.part == LOCKSTEP_SPAN_DATA_WAIT && !summed) {
      if (record.subject == training_loader_)
        close();
      else if (wait_begins == 0)
        wait_begins = record.begin_ns;
    }
    if (record.part != LOCKSTEP_SPAN_FORWARD) continue;
    if ((record.flags & LOCKSTEP_FLAG_NO_TRAINING) == 0) {
      close();
      wait_begins = 0;
      continue;
    }
    if (!learning_modules_.contains(record.subject) || record.subject == 0) continue;
    if (!open) {
      open = span;
      open->record.part = LOCKSTEP_SPAN_EVALUATION;
      open->record.flags = 0;
      open->record.count = 1;
      if (wait_begins != 0) open->record.begin_ns = std::max(from, wait_begins);
      wait_begins = 0;
    }
    open->record.end_ns = record.end_ns;
    open->record.busy_ns = open->record.end_ns - open->record.begin_ns;
  }
  close();
  spans.insert(spans.end(), found.begin(), found.end());
}

// Calls into the C library tell what a stretch is made of that no hook explains.
void StepAccountant::add_host_calls(const Raw& raw, std::vector<StepRest>& rests) {
  for (const Span& call : host_) {
    if (call.record.begin_ns >= raw.end_ns) break;
    const double from =
        ms(call.record.begin_ns > raw.begin_ns ? call.record.begin_ns - raw.begin_ns : 0);
    const double to = ms(call.record.end_ns - raw.begin_ns);
    for (StepRest& rest : rests)
      if (const double inside = overlap(rest.from_ms, rest.from_ms + rest.length_ms, from, to);
          inside > 0)
        rest.calls.push_back({static_cast<StepPart>(call.record.part), call.place, inside});
  }
}

// A model's forward that sleeps or asks a server: the program's own code, not torch's. Condition
// variables are torch's way of waiting for its own threads. Looks name the line later.
void StepAccountant::add_waits_within_torch(const Raw& raw, std::vector<StepPiece>& pieces) {
  while (!host_.empty() && host_.front().record.end_ns <= raw.begin_ns) host_.pop_front();
  std::vector<StepPiece> found;
  for (const Span& call : host_) {
    if (call.record.begin_ns >= raw.end_ns) break;
    if (call.record.part != LOCKSTEP_SPAN_OTHER || call.record.begin_ns < raw.begin_ns ||
        call.record.end_ns > raw.end_ns || call.place->what.starts_with("pthread_cond") ||
        call.place->what.starts_with("sem_"))
      continue;
    const double from = ms(call.record.begin_ns - raw.begin_ns);
    const double to = ms(call.record.end_ns - raw.begin_ns);
    const StepPiece* const around = innermost_around(pieces, from, to);
    if (around == nullptr || !is_torchs_work(around->part)) continue;
    StepPiece piece;
    piece.part = StepPart::other;
    piece.place = place_of("", 0, 0, 0, call.record.what, sizeof call.record.what);
    piece.from_ms = from;
    piece.length_ms = to - from;
    found.push_back(std::move(piece));
  }
  pieces.insert(pieces.end(), found.begin(), found.end());
}

// By the Python probe's events in the GPU's queue.
void StepAccountant::add_gpu_idle(const Raw& raw, StepMark& mark, std::vector<StepPiece>& pieces) {
  while (!gpu_idle_.empty() && gpu_idle_.front().second <= raw.begin_ns) gpu_idle_.pop_front();
  for (const auto& [from, to] : gpu_idle_) {
    if (from >= raw.end_ns) break;
    const double idle_from = from > raw.begin_ns ? ms(from - raw.begin_ns) : 0;
    const double idle_to = ms(std::min(to, raw.end_ns) - raw.begin_ns);
    mark.gpu_idle_ms = mark.gpu_idle_ms.value_or(0) + std::max(0.0, idle_to - idle_from);
    // Two events that the GPU reaches one after the other lie some microseconds apart though it
    // never stopped.
    mark.gpu_ran_dry =
        idle_from <= std::max(kQueuedToDoneMs, kQueuedToDoneShare * mark.duration_ms) &&
        idle_to - idle_from >= idle_to / 2;
    // Until the GPU ran dry it had work: what the host did meanwhile cost nothing.
    for (StepPiece& piece : pieces)
      if (piece.count == 1)
        piece.hidden_ms = std::min(
            piece.own_ms, overlap(piece.from_ms, piece.from_ms + piece.length_ms, 0, idle_from));
  }
}

// Waits that no hook saw: x[mask] must know how many elements there are, and asks the GPU. They
// count as sync on the line of the piece around them; where there is none, looks name the line
// later.
void StepAccountant::add_driver_waits(const Raw& raw, std::vector<StepPiece>& pieces) {
  std::vector<StepPiece> found;
  for (const DeviceAccountant::Wait& wait : device_.waits(raw.begin_ns, raw.end_ns)) {
    if (wait.end_ns - wait.begin_ns < kWaitWorthTellingNs) continue;
    const double from = ms(wait.begin_ns - raw.begin_ns);
    const double to = ms(wait.end_ns - raw.begin_ns);
    const StepPiece* const around = innermost_around(pieces, from, to);
    // what waits by its nature, or another thread
    if (around != nullptr && !is_torchs_work(around->part)) continue;
    const bool in_backward = around != nullptr && around->part == StepPart::backward;
    if ((wait.of == DeviceAccountant::WaitOf::autograd && !in_backward) ||
        (wait.of == DeviceAccountant::WaitOf::unknown_thread && around == nullptr))
      continue;
    StepPiece piece;
    piece.part = StepPart::sync;
    piece.place = around == nullptr
                      ? place_of("", 0, 0, 0, kDriverWait, sizeof kDriverWait)
                      : place_of(around->place->file.c_str(), around->place->file.size(),
                                 static_cast<std::uint32_t>(around->place->line),
                                 static_cast<std::uint32_t>(around->place->loop_line), kDriverWait,
                                 sizeof kDriverWait);
    piece.from_ms = from;
    piece.length_ms = to - from;
    piece.on_device = true;
    found.push_back(std::move(piece));
  }
  pieces.insert(pieces.end(), found.begin(), found.end());
}

// By the GPU's own records. What the host did while the GPU had work cost nothing.
void StepAccountant::add_device_time(const Raw& raw, StepMark& mark,
                                     std::vector<StepPiece>& pieces) {
  if (!device_.speaks()) return;
  mark.beside_cupti = device_.is_there(raw.begin_ns, raw.end_ns);
  const bool whole = device_.covers(raw.begin_ns, raw.end_ns);
  DeviceAccountant::Account account =
      device_.take(raw.begin_ns, raw.end_ns, stretches_of(pieces, raw.begin_ns, raw.end_ns));
  if (!whole) return;  // of a part nothing is told: what is missing would look idle
  std::vector<std::pair<double, double>> idle;
  double idle_ms = 0;
  for (const auto& [from, to] : account.idle) {
    idle.emplace_back(ms(from - raw.begin_ns), ms(to - raw.begin_ns));
    idle_ms += ms(to - from);
  }
  mark.gpu_idle_ms = idle_ms;
  mark.gpu_ran_dry =
      !idle.empty() &&
      idle.front().first <= std::max(kQueuedToDoneMs, kQueuedToDoneShare * mark.duration_ms) &&
      idle.front().second - idle.front().first >= kQueuedToDoneMs / 2;
  for (StepPiece& piece : pieces) {
    if (piece.count != 1) continue;
    double paid = 0;
    for (const auto& [from, to] : idle)
      paid += overlap(piece.from_ms, piece.from_ms + piece.length_ms, from, to);
    piece.hidden_ms = std::max(0.0, std::min(piece.own_ms, piece.length_ms - paid));
  }
  double hidden = 0;
  for (const DeviceTime& device : account.time.devices)
    hidden = std::max(hidden, device.collective_ms - device.exposed_ms);
  if (hidden > 0)
    mark.spans_ms[index_of(StepPart::collective_hidden)] = std::min(hidden, mark.duration_ms);
  mark.on_devices = std::move(account.time);
}

StepAccountant::Step StepAccountant::account(const Raw& raw) {
  auto detail = std::make_shared<StepDetail>();
  Step step;
  step.end_ns = raw.end_ns;
  step.mark.index = raw.index;
  step.mark.duration_ms = ms(raw.end_ns - raw.begin_ns);
  std::vector<Span> spans = raw.spans;
  add_evaluation(raw, spans);
  std::vector<StepPiece> summed;
  int passes = 0;
  int synced = 0;
  for (const Span& span : spans) {
    if (span.record.end_ns <= raw.begin_ns) continue;  // began and ended before the last step did
    if (span.record.part == LOCKSTEP_SPAN_BACKWARD) {
      ++passes;
      if ((span.record.flags & LOCKSTEP_FLAG_SYNCS) != 0) ++synced;
    }
    StepPiece piece = piece_of(span.record, span.place, raw.begin_ns);
    if ((span.record.flags & LOCKSTEP_FLAG_SUMMED) != 0) {
      piece.own_ms = std::min(ms(span.record.busy_ns), piece.length_ms);
      summed.push_back(std::move(piece));
    } else {
      detail->pieces.push_back(std::move(piece));
    }
  }
  add_driver_waits(raw, detail->pieces);
  add_waits_within_torch(raw, detail->pieces);
  detail->rests = nest(detail->pieces, step.mark.duration_ms);
  add_summed(detail->pieces, detail->rests, std::move(summed));
  add_host_calls(raw, detail->rests);
  std::erase_if(detail->rests, [](const StepRest& rest) { return rest.length_ms <= 0; });

  while (!looks_.empty() && looks_.front().at_ns < raw.begin_ns) looks_.pop_front();
  for (const Look& look : looks_) {
    if (look.at_ns >= raw.end_ns) break;
    detail->looks.push_back({ms(look.at_ns - raw.begin_ns), ms(look.weight_ns), look.place});
  }
  add_device_time(raw, step.mark, detail->pieces);
  if (!step.mark.on_devices) add_gpu_idle(raw, step.mark, detail->pieces);
  device_.forget_waits(raw.end_ns);
  double named = 0;
  std::array<double, kStepSpanNames.size()> parts{};
  for (const StepPiece& piece : detail->pieces)
    parts[index_of(piece.part)] += std::max(0.0, piece.own_ms);
  for (const double part : parts) named += part;
  parts[index_of(StepPart::other)] += std::max(0.0, step.mark.duration_ms - named);
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (part != index_of(StepPart::collective_hidden)) step.mark.spans_ms[part] = parts[part];
  if (passes > 0) {
    step.mark.passes = passes;
    step.mark.synced_passes = synced;
  }
  step.mark.detail = std::move(detail);
  return step;
}

}  // namespace lockstep
