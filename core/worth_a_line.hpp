#pragma once
// Which of many equal messages reach the log.
#include <bit>
#include <cstdint>

namespace troupe::log {

/// Of what every one of many peers may do again and again: the 1st, 2nd, 4th, 8th, ... time.
inline bool worth_a_line(std::uint64_t times) { return std::has_single_bit(times); }

}  // namespace troupe::log
