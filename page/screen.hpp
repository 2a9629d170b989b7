#pragma once
// The page's first screen as text: `troupe watch RUN --terminal`.
#include <cstddef>
#include <string>

#include <troupe/page/watched_run.hpp>

namespace troupe::page {

struct ScreenOptions {
  std::size_t columns = 80;  ///< no line is longer
  std::size_t rows = 24;     ///< what does not fit is left out, least wanted first
  bool color = false;
};

/// Lines with their ends.
std::string screen_of(const WatchedRun& run, const ScreenOptions& options);

}  // namespace troupe::page
