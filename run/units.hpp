#pragma once
// Numbers for people: the progress line, the summary table and the axes of the learning curve.
#include <string>

namespace troupe::apps {

/// "7.0s", "1m05s", "2h03m": three significant parts at most. Negative or not finite: "?".
std::string format_duration(double seconds);
/// "950", "12.3k", "1.20M", "3.40G": about three digits. Not finite: "?".
std::string format_count(double count);

/// "0", "200", "1000", "50k", "1.5M": a round number on an axis, as short as it can be.
std::string format_tick(double value);

}  // namespace troupe::apps
