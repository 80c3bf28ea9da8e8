#include "sources/trace/event_stream.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/text.hpp"

namespace lockstep {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kNowhere = std::string_view::npos;
constexpr std::size_t kLargestEvent = 64U << 20U;
constexpr std::size_t kLargestFact = 1U << 20U;
constexpr std::array<std::string_view, 4> kFacts = {"distributedInfo", "deviceProperties",
                                                    "baseTimeNanoseconds", "host_name"};

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// `key` points behind a key's opening quote; the window's padding makes the comparison safe.
template <std::size_t N>
bool is(const char* key, const char (&name)[N]) {
  return std::memcmp(key, name, N - 1) == 0 && key[N - 1] == '"';
}

// What stands there, without quotes and the space behind it.
std::string_view as_written(ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  while (!token.empty() && is_space(token.back())) token.remove_suffix(1);
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"')
    token = token.substr(1, token.size() - 2);
  return token;
}

simdjson::error_code read_arguments(ondemand::value& value, TraceEvent& event) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return error;
  if (type != ondemand::json_type::object) return simdjson::SUCCESS;
  ondemand::object arguments;
  if (const auto error = value.get_object().get(arguments)) return error;
  for (auto entry : arguments) {
    ondemand::field field;
    if (const auto error = std::move(entry).get(field)) return error;
    const char* const key = field.key().raw();
    switch (*key) {
      case 's':
        if (is(key, "stream")) event.stream = as_written(field.value());
        break;
      case 'c':
        if (is(key, "correlation")) event.correlation = as_written(field.value());
        break;
      case 'd':
        if (is(key, "device"))
          event.device = as_written(field.value());
        else if (is(key, "dtype"))
          event.element_type = as_written(field.value());
        break;
      case 'b':
        if (is(key, "bytes")) event.bytes = as_written(field.value());
        break;
      case 'C':
        if (is(key, "Call stack"))
          event.call_stack = as_written(field.value());
        else if (is(key, "Collective name"))
          event.collective = as_written(field.value());
        break;
      case 'P':
        if (is(key, "Process Group Name")) event.group = as_written(field.value());
        break;
      case 'G':
        if (is(key, "Group size")) event.group_size = as_written(field.value());
        break;
      case 'I':
        if (is(key, "In msg nelems")) event.elements = as_written(field.value());
        break;
      default: break;
    }
  }
  return simdjson::SUCCESS;
}

enum class Kind : std::uint8_t { has_a_length, of_another_kind };

std::optional<EventPhase> phase_of(std::string_view text) {
  for (const EventPhase phase : {EventPhase::complete, EventPhase::begin, EventPhase::end})
    if (text.size() == 1 && text.front() == static_cast<char>(phase)) return phase;
  return std::nullopt;
}

simdjson::error_code read_event(ondemand::object& object, TraceEvent& event, Kind& kind) {
  kind = Kind::of_another_kind;
  std::optional<EventPhase> phase;
  for (auto entry : object) {
    ondemand::field field;
    if (const auto error = std::move(entry).get(field)) return error;
    const char* const key = field.key().raw();
    switch (*key) {
      case 'p':
        if (is(key, "ph")) {
          phase = phase_of(as_written(field.value()));
          if (!phase) return simdjson::SUCCESS;  // the rest of it is passed over
        } else if (is(key, "pid")) {
          event.process = as_written(field.value());
        }
        break;
      case 'c':
        if (is(key, "cat")) event.category = as_written(field.value());
        break;
      case 'n':
        if (is(key, "name")) event.name = as_written(field.value());
        break;
      case 't':
        if (is(key, "ts"))
          event.start = as_written(field.value());
        else if (is(key, "tid"))
          event.thread = as_written(field.value());
        break;
      case 'd':
        if (is(key, "dur")) event.duration = as_written(field.value());
        break;
      case 'a':
        if (is(key, "args"))
          if (const auto error = read_arguments(field.value(), event)) return error;
        break;
      default: break;
    }
  }
  if (!phase) return simdjson::SUCCESS;
  event.phase = *phase;
  kind = Kind::has_a_length;
  return simdjson::SUCCESS;
}

class EventStream {
 public:
  EventStream(TraceBytes& bytes, EventHandler& handler) : bytes_(bytes), handler_(handler) {
    buffer_.assign(1, ' ');
  }

  StreamEnd read() {
    skip_mark();
    const char first = skip_space();
    if (first == '[') {
      ++begin_;
      read_list();
      if (begin_ >= size_) end_.cut = false;  // the closing bracket may be left out
    } else if (first == '{') {
      ++begin_;
      read_object();
    }
    return std::move(end_);
  }

 private:
  // ---- the window: what was read and not yet used lies in [begin_, size_), with simdjson's
  // padding behind it

  bool more() {
    block_ = bytes_.next(std::move(block_));
    if (block_.empty()) return false;
    end_.bytes += block_.size();
    if (begin_ > 1) {  // one byte stays before it, for the bracket that a window is given
      std::memmove(buffer_.data() + 1, buffer_.data() + begin_, size_ - begin_);
      size_ -= begin_ - 1;
      begin_ = 1;
    }
    if (buffer_.size() < size_ + block_.size() + simdjson::SIMDJSON_PADDING)
      buffer_.resize(size_ + block_.size() + simdjson::SIMDJSON_PADDING, ' ');
    std::memcpy(buffer_.data() + size_, block_.data(), block_.size());
    size_ += block_.size();
    return true;
  }

  // The next byte, read if need be; 0 at the end.
  char peek() { return begin_ < size_ || more() ? buffer_[begin_] : '\0'; }

  char skip_space() {
    while (is_space(peek())) ++begin_;
    return peek();
  }

  void skip_mark() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    while (size_ - begin_ < kByteOrderMark.size() && more()) {
    }
    if (std::string_view(buffer_.data() + begin_, size_ - begin_).starts_with(kByteOrderMark))
      begin_ += kByteOrderMark.size();
  }

  // ---- around the list: byte by byte

  void read_object() {
    while (true) {
      char next = skip_space();
      if (next == ',') {
        ++begin_;
        continue;
      }
      if (next != '"') {
        end_.cut = end_.cut || next == '\0';
        return;
      }
      const std::string key = take_string();
      next = skip_space();
      if (next != ':') {
        end_.cut = true;
        return;
      }
      ++begin_;
      next = skip_space();
      if (key == "traceEvents" && next == '[' && !end_.is_trace) {
        ++begin_;
        if (!read_list()) return;
        continue;
      }
      std::string value;
      const bool wanted = std::ranges::find(kFacts, key) != kFacts.end();
      if (!take_value(value)) {
        end_.cut = true;
        return;
      }
      if (!wanted || value.empty()) continue;
      end_.facts.emplace_back(key, std::move(value));
    }
  }

  // from its opening quote to behind the closing one; long ones lose their end
  std::string take_string() {
    constexpr std::size_t kLongestKey = 256;
    std::string text;
    ++begin_;
    for (char c = peek(); c != '\0' && c != '"'; c = peek()) {
      ++begin_;
      if (text.size() < kLongestKey) text += c;
      if (c == '\\' && peek() != '\0') ++begin_;
    }
    if (peek() == '"') ++begin_;
    return text;
  }

  // Takes a value's text, of those too long an empty one.
  bool take_value(std::string& text) {
    int depth = 0;
    bool in_string = false;
    bool too_long = false;
    while (true) {
      const char c = peek();
      if (c == '\0') return false;
      if (!in_string && depth == 0 && (c == ',' || c == '}' || c == ']')) break;
      ++begin_;
      if (text.size() < kLargestFact)
        text += c;
      else
        too_long = true;
      if (in_string) {
        if (c == '\\' && peek() != '\0') {
          if (text.size() < kLargestFact) text += peek();
          ++begin_;
        } else if (c == '"') {
          in_string = false;
        }
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        --depth;
      }
    }
    if (too_long) text.clear();
    return true;
  }

  // ---- the list: window by window

  // begin_ stands behind the opening bracket, and at the end behind the closing one. False: nothing
  // follows.
  bool read_list() {
    end_.is_trace = true;
    while (true) {
      const std::size_t cut = last_boundary();
      if (cut != kNowhere) {
        const After after = parse(cut);
        if (after.stopped) return false;
        if (after.list_ended) return true;
        if (after.failed) {
          const Step step = one_by_one(cut);
          if (step == Step::stopped) return false;
          if (step == Step::list_ended) return true;
          if (step == Step::needs_more && !grow()) return false;
        }
        continue;
      }
      switch (one_by_one(kNowhere)) {
        case Step::stopped: return false;
        case Step::list_ended: return true;
        case Step::done:
        case Step::needs_more:
          if (!grow()) return false;
      }
    }
  }

  // More of the file. False: there is none, and what is left is half an event.
  bool grow() {
    if (size_ - begin_ > kLargestEvent) {
      ++end_.unreadable;
      begin_ = size_;
    }
    if (exhausted_) {
      end_.cut = true;
      return false;
    }
    exhausted_ = !more();
    return true;  // at the end what is left is looked at once more
  }

  // Where a comma parts two events, from `from` on or the last of all. The comma's place.
  std::size_t boundary_before_brace(std::size_t brace) const {
    std::size_t behind = brace + 1;
    while (behind < size_ && is_space(buffer_[behind])) ++behind;
    if (behind + 1 >= size_ || buffer_[behind] != '"' || !is_letter(buffer_[behind + 1]))
      return kNowhere;
    std::size_t at = brace;
    while (at > begin_ && is_space(buffer_[at - 1])) --at;
    if (at <= begin_ || buffer_[at - 1] != ',') return kNowhere;
    const std::size_t comma = --at;
    while (at > begin_ && is_space(buffer_[at - 1])) --at;
    return at > begin_ && buffer_[at - 1] == '}' ? comma : kNowhere;
  }

  std::size_t last_boundary() const {
    const std::string_view window(buffer_.data(), size_);
    for (std::size_t brace = window.rfind('{'); brace != kNowhere && brace > begin_;
         brace = window.rfind('{', brace - 1))
      if (const std::size_t comma = boundary_before_brace(brace); comma != kNowhere) return comma;
    return kNowhere;
  }

  std::size_t next_boundary(std::size_t from) const {
    const std::string_view window(buffer_.data(), size_);
    for (std::size_t brace = window.find('{', from + 1); brace != kNowhere;
         brace = window.find('{', brace + 1))
      if (const std::size_t comma = boundary_before_brace(brace); comma != kNowhere && comma > from)
        return comma;
    return kNowhere;
  }

  // Behind the brace that closes the object at `from`; nowhere: not in the window.
  std::size_t object_end(std::size_t from, std::size_t to) const {
    int depth = 0;
    bool in_string = false;
    for (std::size_t at = from; at < to; ++at) {
      const char c = buffer_[at];
      if (in_string) {
        if (c == '\\')
          ++at;
        else if (c == '"')
          in_string = false;
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        return at + 1;
      }
    }
    return kNowhere;
  }

  struct After {
    bool stopped = false;
    bool list_ended = false;
    bool failed = false;  // begin_ then stands at the event that did
  };

  // Hands out the events of [begin_, to), where a comma or nothing stands at `to`.
  After parse(std::size_t to) {
    After after;
    // A list that is not closed is looked at one byte beyond its end: nothing may stand there that
    // could close it.
    if (to + 2 + simdjson::SIMDJSON_PADDING > buffer_.size())
      buffer_.resize(to + 2 + simdjson::SIMDJSON_PADDING, ' ');
    const char before = buffer_[begin_ - 1];
    const char behind = buffer_[to];
    const char beyond = buffer_[to + 1];
    buffer_[begin_ - 1] = '[';
    buffer_[to] = ']';
    buffer_[to + 1] = ' ';
    after = parse_list(buffer_.data() + begin_ - 1, to - begin_ + 2);
    const std::size_t base = begin_ - 1;
    buffer_[to] = behind;
    buffer_[to + 1] = beyond;
    buffer_[base] = before;
    if (after.failed)
      begin_ = std::max(begin_, failed_at_);
    else if (after.list_ended)
      begin_ = failed_at_;
    else if (!after.stopped)
      begin_ = std::min(size_, to + 1);
    return after;
  }

  After parse_list(const char* text, std::size_t length) {
    After after;
    failed_at_ = begin_;
    ondemand::document document;
    const std::size_t room = static_cast<std::size_t>(buffer_.data() + buffer_.size() - text);
    auto error = parser_.iterate(text, length, room).get(document);
    if (error == simdjson::UTF8_ERROR) {
      make_utf8(text, length);
      error = parser_.iterate(text, length, room).get(document);
    }
    ondemand::array list;
    if (error == simdjson::SUCCESS) error = document.get_array().get(list);
    if (error != simdjson::SUCCESS) {
      after.failed = true;
      return after;
    }
    bool handed_out = false;
    for (auto entry : list) {
      ondemand::value value;
      if (std::move(entry).get(value) != simdjson::SUCCESS) {
        // What stands behind the event that was handed out is wrong: that one is not read again.
        if (const std::size_t behind = handed_out ? object_end(failed_at_, size_) : kNowhere;
            behind != kNowhere)
          failed_at_ = behind;
        after.failed = true;
        return after;
      }
      const char* place = nullptr;
      if (document.current_location().get(place) == simdjson::SUCCESS)
        failed_at_ = static_cast<std::size_t>(place - buffer_.data());
      ondemand::object object;
      TraceEvent event;
      Kind kind{};
      if (value.get_object().get(object) != simdjson::SUCCESS ||
          read_event(object, event, kind) != simdjson::SUCCESS) {
        after.failed = true;
        return after;
      }
      event.index = end_.events;
      if (kind == Kind::has_a_length && !handler_.on_event(event)) {
        after.stopped = end_.stopped = true;
        return after;
      }
      ++end_.events;
      handed_out = true;
    }
    const char* place = nullptr;
    // not at the end: the list ended before the window did
    if (document.current_location().get(place) == simdjson::SUCCESS) {
      after.list_ended = true;
      failed_at_ = static_cast<std::size_t>(place - buffer_.data());
    }
    return after;
  }

  enum class Step : std::uint8_t { done, needs_more, list_ended, stopped };

  // Event by event, for windows in which something is wrong and for the last one. `cut` nowhere: to
  // the window's end.
  Step one_by_one(std::size_t cut) {
    // further on no end is looked for: its quotes are wrong
    constexpr std::size_t kUsualEvents = 4U << 20U;
    while (true) {
      const std::size_t to = cut == kNowhere ? size_ : std::min(cut, size_);
      while (begin_ < to && (is_space(buffer_[begin_]) || buffer_[begin_] == ',')) ++begin_;
      if (begin_ >= to) return Step::done;
      if (buffer_[begin_] == ']') {
        ++begin_;
        return Step::list_ended;
      }
      std::size_t stop = buffer_[begin_] == '{' ? object_end(begin_, size_) : kNowhere;
      if (stop == kNowhere) {
        if (!exhausted_ && size_ - begin_ < kUsualEvents) return Step::needs_more;
        stop = next_boundary(begin_);
        if (stop == kNowhere) return Step::needs_more;
      }
      const std::size_t event = begin_;
      const After after = parse(stop);
      if (after.stopped) return Step::stopped;
      begin_ = stop;
      if (!after.failed) continue;
      ++end_.unreadable;
      if (const std::size_t boundary = next_boundary(event); boundary != kNowhere)
        begin_ = boundary;
    }
  }

  // Bytes that are no UTF-8 become question marks: a name is a name.
  void make_utf8(const char* text, std::size_t length) {
    char* const at = buffer_.data() + (text - buffer_.data());
    for (std::size_t i = 0; i < length; ++i)
      if ((static_cast<unsigned char>(at[i]) & 0x80U) != 0) at[i] = '?';
  }

  TraceBytes& bytes_;
  EventHandler& handler_;
  ondemand::parser parser_;
  std::string block_;  // the last one read
  std::string buffer_;
  std::size_t begin_ = 1;
  std::size_t size_ = 1;
  std::size_t failed_at_ = 0;
  bool exhausted_ = false;  // the file has no more
  StreamEnd end_;
};

}  // namespace

StreamEnd read_events(TraceBytes& bytes, EventHandler& handler) {
  return EventStream(bytes, handler).read();
}

}  // namespace lockstep
