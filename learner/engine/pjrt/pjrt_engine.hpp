#pragma once
#include <troupe/learner/engine/engine.hpp>

namespace troupe::learner {

/// The engine of devices "pjrt:..." and "tpu:...".
const Engine& pjrt_engine();

}  // namespace troupe::learner
