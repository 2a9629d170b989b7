#include <troupe/envs/wrapper.hpp>

#include <fmt/format.h>

#include <utility>

#include <troupe/core/rng.hpp>

namespace troupe::envs {

std::vector<std::byte> Wrapper::save_state() const {
  std::vector<std::byte> state = save_own();
  const std::vector<std::byte> inside = inside_->save_state();
  state.insert(state.end(), inside.begin(), inside.end());
  return state;
}

Status Wrapper::restore_state(std::span<const std::byte> state) {
  const std::vector<std::byte> before = save_own();
  if (state.size() < before.size()) {
    return Error{Code::kCorrupt, fmt::format("{}: saved state: got {} bytes, expected at least {}", spec_.name,
                                             state.size(), before.size())};
  }
  TROUPE_TRY(restore_own(state.first(before.size())));
  Status restored = inside_->restore_state(state.subspan(before.size()));
  if (!restored.ok()) TROUPE_TRY(restore_own(before));
  return restored;
}

Status Wrapper::restore_own(std::span<const std::byte>) { return {}; }

MakeEnvironment wrapped(MakeEnvironment make, std::vector<NamedWrap> wrappers) {
  if (wrappers.empty()) return make;
  return [make = std::move(make),
          wrappers = std::move(wrappers)](std::uint64_t seed) -> Result<std::unique_ptr<Environment>> {
    TROUPE_ASSIGN(auto environment, make(seed));
    for (const auto& [name, wrap] : wrappers) {
      auto around = wrap(std::move(environment), derive_seed(seed, name, 0));
      if (!around.ok()) return Error{around.error().code, fmt::format("{}: {}", name, around.error().message)};
      environment = std::move(around).value();
    }
    return {std::move(environment)};
  };
}

}  // namespace troupe::envs
