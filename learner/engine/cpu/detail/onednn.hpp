#pragma once
// The one way to oneDNN: nothing of the library may run before it knows how far up it may go (instruction_set.hpp).
#include <oneapi/dnnl/dnnl.hpp>

namespace troupe::learner {

/// The processor, as oneDNN's engine. Whoever makes a plan of this library asks for it first.
const dnnl::engine& onednn_cpu();

}  // namespace troupe::learner
