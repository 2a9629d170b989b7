#pragma once
// Where the environments that ship come from. An origin knows its names and makes instances of them, by whatever
// simulates them; make_environment.cpp has the list of origins.
#include <string>
#include <vector>

#include <troupe/envs/environment.hpp>

namespace troupe::envs {

struct Origin {
  std::vector<std::string> (*names)();
  /// Of one of these names. Instances that are made by one of them share what no step changes.
  MakeEnvironment (*shared)(const std::string& name);
};

/// dm_control's Control Suite, in MuJoCo.
Origin control_suite();
/// gymnasium's classic control.
Origin classic_control();

}  // namespace troupe::envs
