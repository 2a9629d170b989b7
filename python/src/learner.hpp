#pragma once
// Learners written in Python, in PyTorch, JAX or whatever else: a class of the user's becomes a LearnerKind.
#include <nanobind/nanobind.h>

#include <troupe/run/registry.hpp>

namespace troupe::python {

/// The kind of learner that a subclass of troupe.Learner is. Python's lock is held; throws what its class attributes
/// are wrong about.
LearnerKind learner_kind(const nanobind::object& type);

}  // namespace troupe::python
