#pragma once
// What happens when an actor that holds the process together throws something that nobody expected: there is no memory
// or no thread. Without such an actor the process would stay as a ghost that answers nobody, so it says what has
// happened and ends, and whoever looks after it starts another one. Roles have a better way: their instance fails
// (actors/runtime/role_actor).
#include <cstdlib>
#include <exception>
#include <string>

#include <caf/all.hpp>

#include <troupe/core/log.hpp>

namespace troupe::actors {

/// Called in the constructor of such an actor.
inline void end_process_on_exception(caf::scheduled_actor& self) {
  self.set_exception_handler([](caf::scheduled_actor* actor, std::exception_ptr& thrown) -> caf::error {
    std::string what = "unknown exception";
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& exception) {
      what = exception.what();
    } catch (...) {
    }
    log::error(
        "TRP-E153 {}: {}; this process ends. Is there enough memory, and are more threads allowed (ulimit -v, "
        "ulimit -u)?",
        actor->name(), what);
    std::_Exit(EXIT_FAILURE);
  });
}

}  // namespace troupe::actors
