#pragma once
// Text that a shell is handed, and commands that people write as one text.
#include <string>
#include <string_view>
#include <vector>

namespace troupe::apps::detail {

/// `text` as one word of a shell's command line, whatever is in it.
std::string shell_quoted(const std::string& text);

/// What stands between white space; no character has another meaning.
std::vector<std::string> words(std::string_view text);

}  // namespace troupe::apps::detail
