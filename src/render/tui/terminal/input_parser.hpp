// From the bytes a terminal sends to keys and clicks. Bytes may come in any pieces; what is not
// understood is dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "render/tui/key.hpp"

namespace lockstep {

class InputParser {
 public:
  // What the bytes, after those before them, come to.
  std::vector<Input> take(std::string_view bytes);
  // Whether a sequence has begun and not ended: an Esc alone looks like the start of one. When
  // nothing follows within some tens of milliseconds, it was the key.
  bool is_waiting() const { return !pending_.empty(); }
  std::vector<Input> give_up_waiting();

 private:
  std::string pending_;
};

}  // namespace lockstep
