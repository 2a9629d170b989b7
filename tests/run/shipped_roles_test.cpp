// Kinds of roles that a program registers ready-made: their keys, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <troupe/run/queue_role.hpp>
#include <troupe/run/registry_check.hpp>
#include <troupe/run/sequence_role.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;

replay::SequenceOptions tables(std::int64_t chunk_steps = 16) {
  return {.step = {{"observation", DType::kF32, {3}}},
          .tables = {{.name = "recent", .max_items = 10}, {.name = "per-episode", .max_items = 20}},
          .chunk_steps = chunk_steps};
}

std::string error_of(const Result<actors::RoleFactory>& made) { return made.ok() ? "ok" : made.error().message; }

TEST(ShippedRoles, AreWellFormedKinds) {
  Registry registry = shipped();
  registry.role("line", queue_of("Trajectory"));
  registry.role("tables", sequence_replay_of(tables()));
  EXPECT_TRUE(check_registry(registry).ok()) << check_registry(registry).error().message;
}

TEST(ShippedRoles, TablesHaveTheCapacitiesOfTheirKeys) {
  const RoleKind kind = sequence_replay_of(tables());
  ASSERT_EQ(kind.keys.size(), 2U);
  EXPECT_EQ(kind.keys[1].path, "per_episode_max_items");
  const auto factory = kind.make(testing::section(kind.keys, {{"recent_max_items", std::int64_t{3}}}));
  ASSERT_TRUE(factory.ok()) << factory.error().message;
  actors::Report report;
  const auto role = (*factory)({.role = "tables", .seed = 1}).value();
  role->report(report);
  EXPECT_EQ(report.sums.at(0).name, "per-episode_items");
  // A state of other capacities is refused, so the key has arrived.
  const auto other = kind.make(testing::section(kind.keys)).value()({.role = "tables", .seed = 1}).value();
  EXPECT_FALSE(other->restore(role->save().value()).ok());
}

TEST(ShippedRoles, TablesThatCannotBeAreRefused) {
  const auto said = [](const RoleKind& kind) { return error_of(kind.make(testing::section(kind.keys))); };
  EXPECT_THAT(said(sequence_replay_of(tables(0))), HasSubstr("chunk_steps: got 0"));
  replay::SequenceOptions twice = tables();
  twice.tables[1].name = "recent";
  RoleKind kind = sequence_replay_of(twice);
  kind.keys.pop_back();
  EXPECT_THAT(said(kind), HasSubstr("two tables are called \"recent\""));
}

}  // namespace
}  // namespace troupe
