#pragma once
// What workers of a parameter server publish of the group "line" (tests/learner, LineReplica).
#include <cstring>
#include <span>
#include <utility>

#include <troupe/actors/roles/evaluation_publication.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors::testing {

inline Result<Frame> line_parameters(messages::FramePool& pool, learner::Program& program, std::int64_t version) {
  const auto values = std::as_bytes(program.params("line")->values());
  TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(
                                  pool, DType::kF32, static_cast<std::int64_t>(values.size() / sizeof(float))));
  std::memcpy(builder.data().data(), values.data(), values.size());
  return std::move(builder).finish({.version = version});
}

}  // namespace troupe::actors::testing
