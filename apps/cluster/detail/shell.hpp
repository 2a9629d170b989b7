#pragma once
// Text that a shell is handed.
#include <string>

namespace troupe::apps::detail {

/// `text` as one word of a shell's command line, whatever is in it.
std::string shell_quoted(const std::string& text);

}  // namespace troupe::apps::detail
