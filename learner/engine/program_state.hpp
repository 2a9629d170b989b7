#pragma once
// A program's training state as named tensors, for checkpoints: parameters and optimiser slots of all groups (targets
// included) and replica state. A restored program continues bit for bit.
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::learner {

/// Tensors under their layout's names ("critic/layer0/weight"), slots with the rule's suffix (slot_names():
/// ".adam_m"). They point into the program, so copy or write them before its next run. Program::step() belongs to the
/// state too and is stored beside them.
std::vector<messages::TensorBytes> save_state(Program& program);

/// Whether `name` is a slot of a tensor among `names`, and not trained itself: "<parameter>.<slot>".
bool is_slot(const std::string& name, const std::set<std::string>& names);

/// Overwrites the state. `tensors` may hold more than this program's, e.g. those of other roles.
/// Errors: kNotFound or kShapeMismatch naming the tensor, got and expected; nothing changed.
Status restore_state(Program& program, std::span<const messages::TensorBytes> tensors, std::int64_t step);

}  // namespace troupe::learner
