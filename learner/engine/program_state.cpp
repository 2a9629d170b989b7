#include <troupe/learner/engine/program_state.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace troupe::learner {
namespace {

struct Section {
  std::string suffix;
  std::span<float> flat;
};

std::vector<Section> sections(ParamBuffer& buffer) {
  std::vector<Section> result = {{"", buffer.values()}};
  for (std::size_t i = 0; i < buffer.slots().size(); ++i) result.push_back({"." + buffer.slots()[i], buffer.slot(i)});
  return result;
}

/// Calls visit(name, shape, values) for every tensor of the state.
template <typename Visit>
void for_each_tensor(Program& program, const Visit& visit) {
  const auto visit_buffer = [&](ParamBuffer& buffer) {
    for (const Section& section : sections(buffer)) {
      for (const ParamEntry& entry : buffer.layout().entries) {
        visit(entry.name + section.suffix, entry.shape,
              section.flat.subspan(static_cast<std::size_t>(entry.offset),
                                   static_cast<std::size_t>(entry.shape.elements())));
      }
    }
  };
  for (std::size_t i = 0; i < program.group_count(); ++i) visit_buffer(program.group(i));
  visit_buffer(program.state());
  if (ParamBuffer* const accumulation = program.accumulation()) visit_buffer(*accumulation);
}

std::string describe(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", to_string(dtype), shape.to_string());
}

}  // namespace

std::vector<messages::TensorBytes> save_state(Program& program) {
  std::vector<messages::TensorBytes> tensors;
  for_each_tensor(program, [&](std::string name, const Shape& shape, std::span<float> values) {
    tensors.push_back({std::move(name), DType::kF32, shape, std::as_bytes(values)});
  });
  return tensors;
}

bool is_slot(const std::string& name, const std::set<std::string>& names) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string::npos && names.contains(name.substr(0, dot));
}

Status restore_state(Program& program, std::span<const messages::TensorBytes> tensors, std::int64_t step) {
  if (program.under_way()) return Error{Code::kInvalidArgument, "restore: a launch is under way; finish() comes first"};
  if (step < 0) return Error{Code::kOutOfRange, fmt::format("restore: step is {}, expected >= 0", step)};
  std::unordered_map<std::string_view, const messages::TensorBytes*> by_name;
  for (const messages::TensorBytes& tensor : tensors) by_name[tensor.name] = &tensor;

  std::vector<std::pair<std::span<float>, std::span<const std::byte>>> copies;
  Status status;
  for_each_tensor(program, [&](const std::string& name, const Shape& shape, std::span<float> values) {
    if (!status.ok()) return;
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      status = Error{Code::kNotFound, fmt::format("restore: no tensor \"{}\"", name)};
      return;
    }
    const messages::TensorBytes& tensor = *found->second;
    if (tensor.dtype != DType::kF32 || tensor.shape != shape || tensor.bytes.size() != values.size_bytes()) {
      status = Error{Code::kShapeMismatch, fmt::format("restore: tensor \"{}\" is {} in {} bytes, expected {}", name,
                                                       describe(tensor.dtype, tensor.shape), tensor.bytes.size(),
                                                       describe(DType::kF32, shape))};
      return;
    }
    copies.emplace_back(values, tensor.bytes);
  });
  TROUPE_TRY(status);
  for (const auto& [to, from] : copies) std::memcpy(to.data(), from.data(), from.size());
  program.parameters_changed();
  program.set_step(step);
  return {};
}

}  // namespace troupe::learner
