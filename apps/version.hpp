#pragma once
#include <string_view>

namespace troupe::apps {

/// "0.1.0 (1a2b3c4d5e6f)": release and commit, with "+changes" when the tree had uncommitted ones; "0.1.0 (no commit)"
/// outside of a git checkout. Written into every summary.
std::string_view version();

}  // namespace troupe::apps
