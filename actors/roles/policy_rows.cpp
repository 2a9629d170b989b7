#include <troupe/actors/roles/policy_rows.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::actors {

Result<std::unique_ptr<PolicyRows>> PolicyRows::make(const learner::PolicyColumns& columns,
                                                     const Signature& observation, std::int64_t rows) {
  std::vector<Source> sources;
  for (const TensorSpec& input : columns.inputs) {
    Source source;
    std::size_t offset = 0;
    const TensorSpec* same = nullptr;
    for (const TensorSpec& column : observation) {
      if (column.name == input.name) {
        same = &column;
        source.offset = offset;
      }
      offset += column.bytes();
    }
    if (same == nullptr) {
      source.output = find(columns.outputs, input.name);
      if (source.output >= 0) same = &columns.outputs[static_cast<std::size_t>(source.output)];
    }
    if (same == nullptr || *same != input) {
      return Error{Code::kShapeMismatch,
                   fmt::format("policy: input {} is {}, expected a column of the observation, or of the outputs for "
                               "recurrent state",
                               input.to_string(), same == nullptr ? "nowhere" : same->to_string())};
    }
    sources.push_back(source);
  }
  return std::unique_ptr<PolicyRows>(new PolicyRows(columns, std::move(sources), rows));
}

PolicyRows::PolicyRows(const learner::PolicyColumns& columns, std::vector<Source> sources, std::int64_t rows)
    : sources_(std::move(sources)),
      taken_(columns.inputs, rows),
      given_(columns.outputs, rows),
      inputs_(taken_.view()),
      outputs_(given_.view()) {}

std::span<std::byte> PolicyRows::input(std::size_t column, std::int64_t row) {
  const std::size_t bytes = (*inputs_.signature)[column].bytes();
  return taken_.mutable_view().columns[column].subspan(static_cast<std::size_t>(row) * bytes, bytes);
}

void PolicyRows::observe(std::int64_t row, std::span<const std::byte> observation) {
  for (std::size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].output >= 0) continue;
    const auto to = input(c, row);
    std::ranges::copy(observation.subspan(sources_[c].offset, to.size()), to.begin());
  }
}

void PolicyRows::first(std::int64_t row, std::span<const std::byte> observation) {
  observe(row, observation);
  for (std::size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].output >= 0) std::ranges::fill(input(c, row), std::byte{0});
  }
}

void PolicyRows::next(std::int64_t row, std::span<const std::byte> observation) {
  observe(row, observation);
  for (std::size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].output < 0) continue;
    const auto to = input(c, row);
    const auto from = outputs_.columns[static_cast<std::size_t>(sources_[c].output)];
    std::ranges::copy(from.subspan(static_cast<std::size_t>(row) * to.size(), to.size()), to.begin());
  }
}

Status PolicyRows::check_finite(std::int64_t version) const {
  for (std::size_t c = 0; c < outputs_.columns.size(); ++c) {
    const TensorSpec& column = (*outputs_.signature)[c];
    const auto bad = first_not_finite(column.dtype, outputs_.columns[c]);
    if (!bad) continue;
    return Error{Code::kInternal,
                 fmt::format("{} gave {}[{}] = {}, expected finite values",
                             version < 0 ? "the policy" : fmt::format("parameters of version {}", version), column.name,
                             bad->index % static_cast<std::size_t>(column.shape.elements()), bad->value)};
  }
  return {};
}

std::vector<std::byte> PolicyRows::save_state(std::int64_t row) const {
  std::vector<std::byte> state;
  for (std::size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].output < 0) continue;
    const std::size_t bytes = (*inputs_.signature)[c].bytes();
    const auto from = inputs_.columns[c].subspan(static_cast<std::size_t>(row) * bytes, bytes);
    state.insert(state.end(), from.begin(), from.end());
  }
  return state;
}

Status PolicyRows::restore_state(std::int64_t row, std::span<const std::byte> observation,
                                 std::span<const std::byte> state) {
  std::size_t expected = 0;
  for (std::size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].output >= 0) expected += (*inputs_.signature)[c].bytes();
  }
  if (state.size() != expected) {
    return Error{Code::kShapeMismatch,
                 fmt::format("state has {} bytes of recurrent state, expected {}", state.size(), expected)};
  }
  observe(row, observation);
  for (std::size_t c = 0; c < sources_.size(); ++c) {
    if (sources_[c].output < 0) continue;
    const auto to = input(c, row);
    std::ranges::copy(state.first(to.size()), to.begin());
    state = state.subspan(to.size());
  }
  return {};
}

}  // namespace troupe::actors
