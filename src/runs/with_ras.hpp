// A live source, with NCCL's own count beside it.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "sources/ras/ras_source.hpp"

namespace lockstep {

inline std::unique_ptr<Source> with_ras(std::unique_ptr<Source> source) {
  const char* const address = std::getenv("NCCL_RAS_ADDR");
  return std::make_unique<RasSource>(std::move(source),
                                     ras_address(address != nullptr ? address : ""));
}

}  // namespace lockstep
