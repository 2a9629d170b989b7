#include <troupe/actors/shipped_models.hpp>

#include <fmt/format.h>

#include <memory>

namespace troupe::actors {

Result<ReplicaModel> shipped_model(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  return Error{Code::kInvalidArgument, fmt::format("replicas.{}.model: unknown \"{}\"", group.name, options.model)};
}

}  // namespace troupe::actors
