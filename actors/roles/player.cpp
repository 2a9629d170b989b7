#include <troupe/actors/roles/player.hpp>

#include <algorithm>
#include <utility>

#include <troupe/core/rng.hpp>

namespace troupe::actors {

std::uint64_t instance_seed(std::uint64_t seed, std::int64_t index) {
  return index == 0 ? seed : derive_seed(seed, "instance", static_cast<std::uint64_t>(index));
}

Result<std::vector<std::unique_ptr<acting::Exploration>>> make_explorations(const acting::MakeExploration& make,
                                                                            const envs::EnvSpec& spec,
                                                                            std::int64_t count,
                                                                            const acting::Explorer& first) {
  std::vector<std::unique_ptr<acting::Exploration>> all;
  for (std::int64_t i = 0; i < count; ++i) {
    TROUPE_ASSIGN(auto exploration, make({instance_seed(first.seed, i), first.index + i, first.count}));
    const Signature& acted = exploration->acted();
    TROUPE_TRY(check_same({acted.begin(), acted.begin() + (acted.empty() ? 0 : 1)}, {spec.action.tensor},
                          "exploration: the action of " + spec.name));
    if (!all.empty()) TROUPE_TRY(check_same(acted, all.front()->acted(), "exploration"));
    all.push_back(std::move(exploration));
  }
  return all;
}

Result<std::unique_ptr<Player>> Player::make(std::unique_ptr<learner::Policy> policy, const envs::EnvSpec& spec,
                                             const acting::MakeExploration& exploration) {
  TROUPE_ASSIGN(auto rows, PolicyRows::make(policy->columns(), spec.observation, policy->rows()));
  TROUPE_ASSIGN(auto explorations, make_explorations(exploration, spec, policy->rows(), {.count = policy->rows()}));
  return std::unique_ptr<Player>(
      new Player(std::move(policy), std::move(rows), std::move(explorations), spec.action.tensor.bytes()));
}

Player::Player(std::unique_ptr<learner::Policy> policy, std::unique_ptr<PolicyRows> rows,
               std::vector<std::unique_ptr<acting::Exploration>> explorations, std::size_t action_bytes)
    : policy_(std::move(policy)),
      rows_(std::move(rows)),
      explorations_(std::move(explorations)),
      first_(explorations_.size(), true),
      acted_(row_bytes(explorations_.front()->acted())),
      actions_(explorations_.size() * action_bytes),
      action_bytes_(action_bytes) {}

void Player::first(std::size_t row, std::span<const std::byte> observation) {
  rows_->first(static_cast<std::int64_t>(row), observation);
  first_[row] = true;
}

void Player::next(std::size_t row, std::span<const std::byte> observation) {
  rows_->next(static_cast<std::int64_t>(row), observation);
  first_[row] = false;
}

Result<std::span<const std::byte>> Player::act() {
  TROUPE_TRY(policy_->act(rows_->inputs(), rows_->mutable_outputs()));
  TROUPE_TRY(rows_->check_finite(-1));
  for (std::size_t row = 0; row < explorations_.size(); ++row) {
    const acting::PolicyRow said{rows_->inputs(), rows_->outputs(), static_cast<std::int64_t>(row), first_[row]};
    TROUPE_TRY(explorations_[row]->choose(said, acted_));
    std::copy_n(acted_.begin(), action_bytes_, actions_.begin() + static_cast<std::ptrdiff_t>(row * action_bytes_));
  }
  return std::span<const std::byte>(actions_);
}

}  // namespace troupe::actors
