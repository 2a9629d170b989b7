#include <troupe/learner/replicate/consistency.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

namespace {

constexpr std::uint64_t kSeed = 14695981039346656037ULL;

/// FNV-1a over words: equal values give equal hashes, and two that differ hardly ever do.
std::uint64_t hash(std::uint64_t hash, std::span<const float> values) {
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211ULL;
  }
  return hash;
}

template <typename Visit>
void for_each_variable(Program& program, VariablePolicy policy, const Visit& visit) {
  for (std::size_t g = 0; g <= program.group_count(); ++g) {
    ParamBuffer& buffer = g < program.group_count() ? program.group(g) : program.state();
    for (const ParamEntry& entry : buffer.layout().entries) {
      if (entry.policy == policy) visit(buffer, entry);
    }
  }
}

std::span<float> part(std::span<float> flat, const ParamEntry& entry) {
  return flat.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.shape.elements()));
}

/// The ranks whose number `at` is not that of rank 0.
std::vector<std::size_t> differing(const std::vector<std::int64_t>& all, std::size_t ranks, std::size_t at) {
  std::vector<std::size_t> found;
  const std::size_t row = all.size() / ranks;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    if (all[rank * row + at] != all[at]) found.push_back(rank);
  }
  return found;
}

Status compare(Program& program, collectives::Communicator& group) {
  std::vector<std::string> names;
  std::vector<std::int64_t> each;
  std::uint64_t all_of = kSeed;
  for_each_variable(program, VariablePolicy::kSync, [&](ParamBuffer& buffer, const ParamEntry& entry) {
    const std::span<float> values = part(buffer.values(), entry);
    names.push_back(entry.name);
    each.push_back(std::bit_cast<std::int64_t>(hash(kSeed, values)));
    all_of = hash(all_of, values);
  });
  const std::array whole{std::bit_cast<std::int64_t>(all_of)};
  const auto ranks = static_cast<std::size_t>(group.view().size);
  TROUPE_ASSIGN(const auto wholes, group.gather_integers(whole, {.name = "variables"}));
  if (differing(wholes, ranks, 0).empty()) return {};
  TROUPE_ASSIGN(const auto all, group.gather_integers(each, {.name = "variables one by one"}));
  for (std::size_t v = 0; v < names.size(); ++v) {
    const std::vector<std::size_t> found = differing(all, ranks, v);
    if (found.empty()) continue;
    return Error{Code::kCorrupt,
                 fmt::format("step {}: variable \"{}\" of rank {} is not that of rank 0, expected equal",
                             program.step(), names[v], fmt::join(found, ", "))};
  }
  return {};
}

Status broadcast(Program& program, collectives::Communicator& group) {
  std::vector<float> values;
  std::vector<std::span<float>> to;
  for_each_variable(program, VariablePolicy::kBroadcast, [&](ParamBuffer& buffer, const ParamEntry& entry) {
    to.push_back(part(buffer.values(), entry));
    values.insert(values.end(), to.back().begin(), to.back().end());
  });
  if (to.empty()) return {};
  TROUPE_TRY(group.broadcast(values, 0, {.name = "broadcast variables"})->wait());
  auto from = values.begin();
  for (const std::span<float> each : to) {
    std::copy_n(from, each.size(), each.begin());
    from += static_cast<std::ptrdiff_t>(each.size());
  }
  program.parameters_changed();
  return {};
}

}  // namespace

Status keep_consistent(Program& program, collectives::Communicator& group, std::int64_t every_steps,
                       std::int64_t taken) {
  const std::int64_t step = program.step();
  if (every_steps <= 0 || step == 0 || group.view().size < 2) return {};
  if (step / every_steps == (step - taken) / every_steps) return {};
  TROUPE_TRY(compare(program, group));
  return broadcast(program, group);
}

std::uint64_t shared_digest(Program& program) {
  std::uint64_t digest = kSeed;
  for_each_variable(program, VariablePolicy::kSync, [&](ParamBuffer& buffer, const ParamEntry& entry) {
    digest = hash(digest, part(buffer.values(), entry));
    for (std::size_t s = 0; s < buffer.slots().size(); ++s) digest = hash(digest, part(buffer.slot(s), entry));
  });
  return digest;
}

std::vector<std::span<float>> own_variables(Program& program) {
  std::vector<std::span<float>> own;
  for (const VariablePolicy policy : {VariablePolicy::kBroadcast, VariablePolicy::kLocal}) {
    for_each_variable(program, policy, [&](ParamBuffer& buffer, const ParamEntry& entry) {
      own.push_back(part(buffer.values(), entry));
      for (std::size_t s = 0; s < buffer.slots().size(); ++s) own.push_back(part(buffer.slot(s), entry));
    });
  }
  return own;
}

}  // namespace troupe::learner
