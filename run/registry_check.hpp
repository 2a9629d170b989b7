#pragma once
// Whether a registry makes sense, before anything is read or started: names that a configuration can have, keys whose
// defaults are allowed, ports whose types somebody knows.
#include <troupe/core/error.hpp>
#include <troupe/run/registry.hpp>

namespace troupe {

/// Errors: kInvalidArgument, one line for each thing that is wrong:
///     registry: role "thermometer": port "celsius" carries "Celcius", which nobody has registered (did you mean
///     Celsius?)
Status check_registry(const Registry& registry);

}  // namespace troupe
