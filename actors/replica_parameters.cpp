#include <troupe/actors/replica_parameters.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::actors {
namespace {

using learner::ParamBuffer;
using learner::ParamEntry;
using learner::Program;

ParamBuffer& buffer(Program& program, const std::string& group) {
  return group.empty() ? program.state() : *program.params(group);
}

}  // namespace

ReplicaParameters::ReplicaParameters(Program& evaluation) {
  const auto add = [this](const std::string& group, const ParamBuffer& from) {
    layout_hash_ = layout_hash_ * 0x100000001b3 ^ from.fingerprint();
    for (const ParamEntry& entry : from.layout().entries) {
      const auto count = static_cast<std::size_t>(entry.shape.elements());
      tensors_.push_back({group, entry.name, entry.shape, static_cast<std::size_t>(elements_), count});
      elements_ += static_cast<std::int64_t>(count);
    }
  };
  for (std::size_t g = 0; g < evaluation.group_count(); ++g) {
    add(evaluation.group(g).layout().group, evaluation.group(g));
  }
  add("", evaluation.state());
}

Status ReplicaParameters::gather(Program& trained, std::span<float> out) const {
  for (const Tensor& tensor : tensors_) {
    if (!tensor.group.empty() && trained.params(tensor.group) == nullptr) {
      return Error{Code::kNotFound, fmt::format("evaluation: no parameter group {} is trained", tensor.group)};
    }
    ParamBuffer& from = buffer(trained, tensor.group);
    const ParamEntry* const entry = from.layout().find(tensor.name);
    if (entry == nullptr) {
      return Error{Code::kNotFound, fmt::format("evaluation: {} is not among what is trained", tensor.name)};
    }
    if (entry->shape != tensor.shape) {
      return Error{Code::kShapeMismatch, fmt::format("evaluation: {} is trained as {}, expected {}", tensor.name,
                                                     entry->shape.to_string(), tensor.shape.to_string())};
    }
    std::ranges::copy(from.tensor(*entry), out.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
  }
  return {};
}

void ReplicaParameters::scatter(std::span<const float> values, Program& evaluation) const {
  for (const Tensor& tensor : tensors_) {
    ParamBuffer& to = buffer(evaluation, tensor.group);
    std::ranges::copy(values.subspan(tensor.offset, tensor.count), to.tensor(*to.layout().find(tensor.name)).begin());
  }
  evaluation.parameters_changed();
}

}  // namespace troupe::actors
