// Tables of shared steps as a role: what writers send is drawn as it was meant, who waits holds up nobody else, what is
// lost is counted, and a checkpoint goes on bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include <troupe/actors/roles/sequence_replay.hpp>
#include <troupe/actors/roles/sequence_writer.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Signature kStep = {{"observation", DType::kF32, {2}}, {"id", DType::kI64, {}}};

replay::SequenceOptions two_tables() {
  return {.step = kStep,
          .tables = {{.name = "recent",
                      .max_items = 100,
                      .sampler = {.kind = replay::SelectorKind::kFifo},
                      .remover = {.kind = replay::SelectorKind::kMinHeap}},
                     {.name = "line",
                      .max_items = 2,
                      .sampler = {.kind = replay::SelectorKind::kFifo},
                      .limiter = replay::queue(2),
                      .max_times_sampled = 1}},
          .chunk_steps = 4};
}

class SequenceReplayTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Role> make(int incarnation = 0) {
    RoleIdentity identity{.role = "experience", .seed = 7};
    identity.incarnation = incarnation;
    return SequenceReplay::make(two_tables(), identity).value();
  }
  static void append(SequenceWriter& writer, std::vector<std::int64_t> ids) {
    std::vector<float> observations;
    for (const std::int64_t id : ids) observations.insert(observations.end(), {float(id), float(-id)});
    BatchView rows{.signature = &kStep, .rows = static_cast<std::int64_t>(ids.size()), .columns = {}};
    rows.columns.emplace_back(std::as_bytes(std::span(observations)));
    rows.columns.emplace_back(std::as_bytes(std::span(ids)));
    writer.append(rows).value();
  }
  /// What the writer has goes to the role, as the frame of this producer.
  Frame flushed(SequenceWriter& writer) {
    FakeContext sender;
    EXPECT_TRUE(writer.flush(sender).value());
    return context_.pool().copy(sender.out("steps").sent.at(0).bytes()).value();
  }
  void send(SequenceWriter& writer, std::size_t producer = 0) {
    context_.in("steps").frames.emplace_back(flushed(writer), producer);
  }
  void ask(const std::string& table, std::int64_t rows, std::uint32_t timeout_ms = 1000) {
    context_.server("samples").requests.push_back(
        messages::make_sample_request(context_.pool(), {rows, timeout_ms, table}).value());
  }
  void run() {
    while (role_->step(context_).value() == Progress::kMore) {
    }
  }
  /// The ids of each sequence of the oldest answer.
  std::vector<std::vector<std::int64_t>> answered() {
    auto& answers = context_.server("samples").answers;
    if (answers.empty()) return {};
    const auto batch = messages::read_batch(context_.pool().copy(answers.front().bytes()).value()).value();
    answers.erase(answers.begin());
    keys_.assign(batch.rows().keys.begin(), batch.rows().keys.end());
    const std::size_t rows = batch.rows().keys.size();
    const auto* ids = reinterpret_cast<const std::int64_t*>(batch.columns().columns[1].data());
    const std::size_t longest = batch.columns().columns[1].size() / sizeof(std::int64_t) / rows;
    std::vector<std::vector<std::int64_t>> all;
    for (std::size_t i = 0; i < rows; ++i) {
      all.emplace_back(ids + i * longest, ids + i * longest + static_cast<std::size_t>(batch.rows().lengths[i]));
    }
    return all;
  }
  double number(const std::string& name) const {
    Report report;
    role_->report(report);
    for (const auto* list : {&report.counters, &report.sums}) {
      for (const Scalar& scalar : *list) {
        if (scalar.name == name) return scalar.value;
      }
    }
    ADD_FAILURE() << "no number " << name;
    return -1;
  }

  FakeContext context_;
  std::unique_ptr<Role> role_ = make();
  std::vector<std::uint64_t> keys_;
};

TEST_F(SequenceReplayTest, GivesItemsOfSeveralLengthsOutOfSharedSteps) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2, 3});
  writer.create_item("recent", 2).value();
  writer.create_item("line", 3).value();
  send(writer);
  append(writer, {4, 5});
  writer.create_item("recent", 4).value();  // its first steps came before
  writer.end_episode();
  EXPECT_EQ(writer.reach(), 0);
  append(writer, {6});
  writer.create_item("recent", 1).value();
  send(writer);
  run();
  ask("recent", 1);
  ask("line", 1);
  run();
  EXPECT_THAT(answered(), ElementsAre(ElementsAre(2, 3)));
  EXPECT_THAT(answered(), ElementsAre(ElementsAre(1, 2, 3)));
  EXPECT_EQ(number("steps"), 6);
  EXPECT_EQ(number("recent_items"), 3);
  EXPECT_EQ(number("recent_samples"), 1);
  EXPECT_EQ(number("line_items"), 0);
  EXPECT_EQ(number("episodes"), 1);
  EXPECT_TRUE(context_.refused.empty());
}

TEST_F(SequenceReplayTest, SaysAtOnceHowATableStands) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2, 3});
  writer.create_item("recent", 2).value();
  writer.create_item("recent", 3).value();
  send(writer);
  ask("line", 1);  // which waits for an item
  ask("recent", 0);
  ask("line", 0);
  run();
  ASSERT_EQ(context_.server("samples").answers.size(), 2U);
  std::vector<std::int64_t> items;
  for (const Frame& answer : context_.server("samples").answers) {
    const auto told = messages::read_batch(context_.pool().copy(answer.bytes()).value()).value();
    EXPECT_EQ(told.columns().rows, 0);
    EXPECT_EQ(told.info().table_inserts, told.info().table_items);
    items.push_back(told.info().table_items);
  }
  EXPECT_THAT(items, ElementsAre(2, 0));
}

TEST_F(SequenceReplayTest, AFullTableHoldsUpItsWriterAndNobodyElse) {
  SequenceWriter ahead(kStep, 10, 1), other(kStep, 10, 2);
  append(ahead, {1, 2});
  for (int i = 0; i < 3; ++i) ahead.create_item("line", 1 + i % 2).value();  // room for two
  append(ahead, {3});
  ahead.create_item("recent", 1).value();
  send(ahead, 0);
  append(other, {50});
  other.create_item("recent", 1).value();
  send(other, 1);
  run();
  EXPECT_EQ(context_.in("steps").frames.size(), 1U);
  EXPECT_THAT(role_->waiting_for(), HasSubstr("table \"line\": insert of 1 waits"));
  EXPECT_EQ(number("recent_items"), 1);
  ask("line", 1);
  run();
  EXPECT_THAT(answered(), ElementsAre(ElementsAre(2)));
  EXPECT_TRUE(context_.in("steps").frames.empty());
  EXPECT_EQ(number("recent_items"), 2);
  EXPECT_EQ(number("line_items"), 2);
  EXPECT_EQ(role_->waiting_for(), "");
}

TEST_F(SequenceReplayTest, RequestsWaitForTheirTableInTheirOrder) {
  ask("recent", 1, 500);
  ask("recent", 1, 5000);
  run();
  EXPECT_TRUE(answered().empty());
  EXPECT_EQ(context_.woken_after, std::chrono::milliseconds(500));
  EXPECT_THAT(role_->waiting_for(), HasSubstr("table \"recent\": sample of 1 waits: 1 more items"));
  context_.manual_clock.advance(std::chrono::seconds(1));
  run();
  SequenceWriter writer(kStep, 4, 1);
  append(writer, {9});
  writer.create_item("recent", 1).value();
  send(writer);
  run();
  EXPECT_THAT(answered(), ElementsAre(ElementsAre(9)));
  EXPECT_TRUE(answered().empty());  // the first one's time was over
}

TEST_F(SequenceReplayTest, WhatMakesNoSenseIsRefusedAndTheRestGoesOn) {
  SequenceWriter writer(kStep, 4, 1);
  append(writer, {1, 2});
  writer.create_item("nowhere", 1).value();
  writer.create_item("recent", 2).value();
  send(writer);
  ask("nowhere", 1);
  context_.in("priorities")
      .frames.emplace_back(messages::make_priorities(context_.pool(), {{1}, {1}, "nowhere"}).value());
  context_.in("steps").frames.emplace_back(context_.pool().copy(std::vector<std::byte>(64)).value());
  run();
  ASSERT_EQ(context_.refused.size(), 4U);
  EXPECT_THAT(context_.refused[0], HasSubstr("priorities: no table \"nowhere\", there are: line, recent"));
  EXPECT_EQ(number("recent_items"), 1);
  EXPECT_EQ(number("lost_items"), 1);
  SequenceWriter stranger({{"id", DType::kI64, {}}}, 4, 2);
  const std::int64_t id = 3;
  const Signature signature = {{"id", DType::kI64, {}}};
  BatchView row{.signature = &signature, .rows = 1, .columns = {std::as_bytes(std::span(&id, 1))}};
  stranger.append(row).value();
  send(stranger);
  run();
  EXPECT_THAT(context_.refused.back(), HasSubstr("append steps"));
}

TEST_F(SequenceReplayTest, AnItemReachesOverNoGap) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2});
  const Frame lost = flushed(writer);
  append(writer, {3, 4});
  writer.create_item("recent", 3).value();  // of a step that was lost
  writer.create_item("recent", 2).value();
  send(writer);
  context_.in("steps").frames.emplace_back(lost);  // comes too late
  run();
  EXPECT_EQ(number("gaps"), 1);
  EXPECT_EQ(number("lost_items"), 1);
  EXPECT_EQ(number("duplicates"), 1);
  ask("recent", 1);
  run();
  EXPECT_THAT(answered(), ElementsAre(ElementsAre(3, 4)));
}

TEST_F(SequenceReplayTest, ClosedWritersKeepNothing) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2, 3});
  send(writer);
  run();
  EXPECT_EQ(number("steps"), 3);
  EXPECT_EQ(number("writers"), 1);
  writer.close();
  send(writer);
  run();
  EXPECT_EQ(number("steps"), 0);
  EXPECT_EQ(number("writers"), 0);
}

TEST_F(SequenceReplayTest, PrioritiesAreOfTheirTable) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1});
  writer.create_item("recent", 1).value();
  send(writer);
  ask("recent", 1);
  run();
  answered();
  context_.in("priorities")
      .frames.emplace_back(messages::make_priorities(context_.pool(), {{keys_[0], 999}, {4, 5}, "recent"}).value());
  ask("recent", 1);
  run();
  EXPECT_EQ(messages::read_batch(context_.server("samples").answers.at(0)).value().rows().priorities[0], 4);
  EXPECT_EQ(number("unknown_priorities"), 1);
}

TEST_F(SequenceReplayTest, ItemsLeaveTheirTableWhenAnUpdateSaysSo) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2, 3});
  for (int i = 0; i < 3; ++i) writer.create_item("recent", 1).value();
  writer.create_item("line", 1).value();
  send(writer);
  ask("recent", 1);
  run();
  answered();
  const auto say = [&](messages::PriorityUpdate update) {
    context_.in("priorities").frames.emplace_back(messages::make_priorities(context_.pool(), update).value());
    run();
    return std::pair(number("recent_items"), number("line_items"));
  };
  EXPECT_EQ(say({.table = "recent", .deletes = {keys_[0], 999}}), std::pair(2.0, 1.0));
  EXPECT_EQ(number("unknown_priorities"), 1);
  EXPECT_EQ(say({.table = "recent", .reset = true}), std::pair(0.0, 1.0));
  EXPECT_EQ(say({.table = "line", .reset = true}), std::pair(0.0, 0.0));
}

TEST_F(SequenceReplayTest, ACheckpointGoesOnWithMessagesThatAreHalfDone) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2});
  for (int i = 0; i < 3; ++i) writer.create_item("line", 2).value();
  append(writer, {3});
  writer.create_item("line", 3).value();
  send(writer);
  run();
  const RoleState state = role_->save().value();
  const auto frames = context_.in("steps").frames;
  std::vector<std::vector<std::vector<std::int64_t>>> seen[2];
  for (int copy = 0; copy < 2; ++copy) {
    if (copy == 1) {
      role_ = make(1);
      role_->restore(state).value();
      context_.in("steps").frames = frames;
    }
    SequenceWriter later(kStep, 10, 2);
    append(later, {7, 8});
    later.create_item("recent", 1).value();
    send(later, 1);
    for (int i = 0; i < 4; ++i) ask("line", 1);
    ask("recent", 2);
    run();
    for (int i = 0; i < 5; ++i) seen[copy].push_back(answered());
    EXPECT_EQ(number("line_inserts"), 4);
    EXPECT_EQ(number("steps"), 5);
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_THAT(seen[0][4], ElementsAre(ElementsAre(1, 2, 3)));  // behind those of the other table
}

TEST_F(SequenceReplayTest, ADamagedStateIsRefused) {
  SequenceWriter writer(kStep, 10, 1);
  append(writer, {1, 2});
  writer.create_item("recent", 2).value();
  send(writer);
  run();
  const RoleState good = role_->save().value();
  for (std::size_t chunk = 0; chunk < good.chunks.size(); ++chunk) {
    RoleState state = good;
    if (state.chunks[chunk].empty()) continue;  // no message is half done
    state.chunks[chunk].pop_back();
    EXPECT_EQ(make()->restore(state).error().code, Code::kCorrupt) << chunk;
  }
}

TEST(SequenceReplayPorts, TakePrioritiesWhereATableGoesByThem) {
  replay::SequenceOptions options = two_tables();
  EXPECT_EQ(SequenceReplay::inlets(options).size(), 3U);
  options.tables[0].remover.kind = replay::SelectorKind::kFifo;
  EXPECT_EQ(SequenceReplay::inlets(options).size(), 2U);
}

TEST(SequenceWriterTest, RefusesWhatItsTablesWouldRefuse) {
  SequenceWriter writer(kStep, 2, 1);
  EXPECT_THAT(writer.create_item("recent", 1).error().message, HasSubstr("expected 1 to 0"));
  const std::vector<std::byte> bytes(64);
  BatchView rows{.signature = &kStep, .rows = 3, .columns = {std::span(bytes).first(24), std::span(bytes).first(24)}};
  writer.append(rows).value();
  EXPECT_EQ(writer.reach(), 2);
  EXPECT_THAT(writer.create_item("recent", 3).error().message,
              HasSubstr("an item of 3 steps for table \"recent\": expected 1 to 2"));
  EXPECT_THAT(writer.create_item("recent", 1, -1).error().message, HasSubstr("priority -1"));
  EXPECT_THAT(writer.create_item("", 1).error().message, HasSubstr("no table"));
  rows.rows = 2;
  EXPECT_THAT(writer.append(rows).error().message, HasSubstr("column observation: got 24 bytes, expected 16"));
}

TEST(SequenceWriterTest, KeepsToOneConsumerAndWaitsForItsRoom) {
  FakeContext context;
  auto& outlet = context.out("steps");
  outlet.consumer_count = 3;
  outlet.full = {2};
  SequenceWriter writer(kStep, 2, 5);  // 5 modulo 3
  EXPECT_TRUE(writer.flush(context).value());
  EXPECT_TRUE(outlet.sent.empty());
  writer.close();
  EXPECT_FALSE(writer.flush(context).value());
  outlet.full.clear();
  EXPECT_TRUE(writer.flush(context).value());
  EXPECT_THAT(outlet.receivers, ElementsAre(2));
  EXPECT_TRUE(messages::read_steps(outlet.sent[0]).value().info().last);
}

}  // namespace
}  // namespace troupe::actors::testing
