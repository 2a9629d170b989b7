#pragma once
// What a user's program in Python has beside what ships: a troupe.Program as a registry.
#include <nanobind/nanobind.h>

#include <troupe/run/registry.hpp>

namespace troupe::python {

/// What ships, with the roles, learners and messages of a troupe.Program; None has nothing of its own. Python's lock is
/// held; throws what is wrong with a class.
Registry registry_of(nanobind::handle program);

}  // namespace troupe::python
