#include <troupe/actors/roles/replica_parameters.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::actors {
namespace {

using learner::ParamBuffer;
using learner::ParamEntry;
using learner::ParamLayout;
using learner::Program;

ParamBuffer& buffer(Program& program, const std::string& group) {
  return group.empty() ? program.state() : *program.params(group);
}

}  // namespace

ReplicaParameters::ReplicaParameters(Program& program, std::string_view only) {
  const auto add = [&](const std::string& group, const ParamBuffer& from, const std::string& prefix) {
    ParamLayout own{.group = group};
    for (const ParamEntry& entry : from.layout().entries) {
      if (!entry.name.starts_with(prefix)) continue;
      own.add(entry.name, entry.shape);
      const auto count = static_cast<std::size_t>(entry.shape.elements());
      tensors_.push_back({group, entry.name, entry.shape, static_cast<std::size_t>(elements_), count});
      elements_ += static_cast<std::int64_t>(count);
    }
    layout_hash_ = layout_hash_ * 0x100000001b3 ^ own.fingerprint();
  };
  for (std::size_t g = 0; g < program.group_count(); ++g) {
    const std::string& name = program.group(g).layout().group;
    if (only.empty() || name == only) add(name, program.group(g), "");
  }
  add("", program.state(), only.empty() ? "" : fmt::format("state/{}/", only));
}

Status ReplicaParameters::gather(Program& trained, std::span<float> out) const {
  TROUPE_TRY(trained.fetch());
  for (const Tensor& tensor : tensors_) {
    if (!tensor.group.empty() && trained.params(tensor.group) == nullptr) {
      return Error{Code::kNotFound, fmt::format("no parameter group {} is trained", tensor.group)};
    }
    ParamBuffer& from = buffer(trained, tensor.group);
    const ParamEntry* const entry = from.layout().find(tensor.name);
    if (entry == nullptr) {
      return Error{Code::kNotFound, fmt::format("{} is not among what is trained", tensor.name)};
    }
    if (entry->shape != tensor.shape) {
      return Error{Code::kShapeMismatch, fmt::format("{} is trained as {}, expected {}", tensor.name,
                                                     entry->shape.to_string(), tensor.shape.to_string())};
    }
    std::ranges::copy(from.tensor(*entry), out.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
  }
  return {};
}

Result<messages::Frame> ReplicaParameters::frame(messages::FramePool& pool, Program& trained,
                                                 std::int64_t version) const {
  TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(pool, DType::kF32, elements_));
  const std::span<std::byte> data = builder.data();
  TROUPE_TRY(gather(trained, {reinterpret_cast<float*>(data.data()), data.size() / sizeof(float)}));
  messages::ParametersInfo info;
  info.version = version;
  info.layout_hash = layout_hash_;
  return std::move(builder).finish(info);
}

Status ReplicaParameters::scatter(const messages::ParametersView& from, Program& program, std::string_view who) const {
  // What comes over the link is another program's word about this one's tensors.
  const auto elements = static_cast<std::size_t>(elements_);
  if (from.info().layout_hash != layout_hash_ || from.data().size() != elements * sizeof(float)) {
    return Error{Code::kShapeMismatch, fmt::format("{}: got parameters of another network", who)};
  }
  const std::span<const float> values(reinterpret_cast<const float*>(from.data().data()), elements);
  for (const Tensor& tensor : tensors_) {
    ParamBuffer& to = buffer(program, tensor.group);
    std::ranges::copy(values.subspan(tensor.offset, tensor.count), to.tensor(*to.layout().find(tensor.name)).begin());
  }
  program.parameters_changed();
  return {};
}

}  // namespace troupe::actors
