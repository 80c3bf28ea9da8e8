// The events of a Chrome trace, one after the other, from a file of any length.
//
// The file is one JSON value, of which only a window is in memory. Windows are cut between two
// events and handed to simdjson. Where to cut is found from the window's end backwards: a brace, a
// comma, a brace and a quote with a letter behind it can stand in no string, for there the quote
// would end it and no letter could follow. Should the place lie within an event (objects in a list
// of its arguments), that event fails to parse and waits for the next window.
//
// An event that is no JSON is passed over and counted: profilers write names that other programs
// gave them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/result.hpp"
#include "sources/trace/trace_bytes.hpp"

namespace lockstep {

enum class EventPhase : char { complete = 'X', begin = 'B', end = 'E' };

// An event that has a length, or is one end of it. All texts as written: numbers and strings alike,
// without quotes; empty: absent. They are valid until the handler returns.
struct TraceEvent {
  std::uint64_t index = 0;  // among all events of the file
  EventPhase phase = EventPhase::complete;
  std::string_view name, category, start, duration, process, thread;
  // Of its arguments.
  std::string_view stream, correlation, device, bytes, call_stack;
  std::string_view collective, group, group_size, elements, element_type;
};

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual bool on_event(const TraceEvent& event) = 0;  // false: no more are wanted
};

struct StreamEnd {
  bool is_trace = false;  // a list of events was found
  bool cut = false;       // the file ends within it
  bool stopped = false;   // the handler wanted no more
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;      // of all kinds
  std::uint64_t unreadable = 0;  // passed over
  // what the file says of itself beside the events: names, and values as JSON
  std::vector<std::pair<std::string, std::string>> facts;
};

StreamEnd read_events(TraceBytes& bytes, EventHandler& handler);

}  // namespace lockstep
