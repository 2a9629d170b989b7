#pragma once
// The machine that a process runs on, in words, for results that are compared later. Used by summary.json and
// `troupe sweep`.
#include <string>
#include <string_view>

namespace troupe::apps {

/// "AMD EPYC 9B14, 2 processors", or "..., 1 of 2 processors" for a process that may use only some. Reads /proc/cpuinfo
/// anew at each call.
std::string machine();

/// The name in a text like that of /proc/cpuinfo: its first "model name", or "unknown processor".
std::string processor_name(std::string_view cpuinfo);

}  // namespace troupe::apps
