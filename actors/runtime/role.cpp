#include <troupe/actors/runtime/role.hpp>

#include <fmt/format.h>

namespace troupe::actors {

Result<std::int64_t> RoleState::counter(std::string_view name) const {
  for (const messages::Counter& counter : counters) {
    if (counter.name == name) return counter.value;
  }
  return Error{Code::kNotFound, fmt::format("state has no counter \"{}\"", name)};
}

Status RoleState::expect_chunks(std::size_t count) const {
  if (chunks.size() == count) return {};
  return Error{Code::kCorrupt, fmt::format("state has {} chunks, expected {}", chunks.size(), count)};
}

}  // namespace troupe::actors
