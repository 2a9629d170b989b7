# Run at every build (apps/CMakeLists.txt): writes OUTPUT, the source of troupe::apps::version(), when it changes.
# Given: SOURCE_DIR, OUTPUT, VERSION.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --abbrev=12 --exclude=* --dirty=+changes
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "no commit")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include <troupe/apps/version.hpp>

namespace troupe::apps {
std::string_view version() { return "@VERSION@ (@commit@)"; }
}  // namespace troupe::apps
]])
