#pragma once
// Small roles and a topology of them, for tests of the shell, the supervisor and the runtime.
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/check.hpp>

namespace troupe::actors::testing {

/// A frame that holds one number. Not a message: roles of one process may pass any bytes.
inline Frame number_frame(messages::FramePool& pool, std::int64_t number) {
  std::byte bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return pool.copy(bytes).value();
}

inline std::int64_t number_of(const Frame& frame) {
  std::int64_t number = 0;
  std::memcpy(&number, frame.bytes().data(), sizeof(number));
  return number;
}

/// Sends 0, 1, 2, ... to "numbers" as fast as there is credit; done after `limit` numbers.
class Counter final : public Role {
 public:
  explicit Counter(std::int64_t limit) : limit_(limit) {}
  Result<Progress> step(RoleContext& context) override {
    if (next_ == limit_) return Progress::kDone;
    if (!context.out("numbers").ready()) return Progress::kIdle;
    context.out("numbers").send(number_frame(context.pool(), next_++));
    return Progress::kMore;
  }
  Result<RoleState> save() const override {
    RoleState state;
    state.counters = {{"next", next_}};
    return state;
  }
  Status restore(const RoleState& state) override {
    TROUPE_ASSIGN(next_, state.counter("next"));
    return {};
  }

 private:
  std::int64_t limit_;
  std::int64_t next_ = 0;
};

/// What a Collector has seen; shared with the test, which reads it when the runtime is gone.
struct Collected {
  std::vector<std::int64_t> numbers;
  std::int64_t largest_depth = 0;
};

/// Takes numbers, at most one a step; done after `limit` of them.
class Collector final : public Role {
 public:
  Collector(std::int64_t limit, std::shared_ptr<Collected> collected)
      : limit_(limit), collected_(std::move(collected)) {}
  Result<Progress> step(RoleContext& context) override {
    if (static_cast<std::int64_t>(collected_->numbers.size()) >= limit_) return Progress::kDone;
    if (context.in("numbers").empty()) return Progress::kIdle;
    collected_->numbers.push_back(number_of(context.in("numbers").take()));
    return Progress::kMore;
  }
  Result<RoleState> save() const override {
    RoleState state;
    for (std::int64_t number : collected_->numbers) state.counters.push_back({std::to_string(number), number});
    return state;
  }
  Status restore(const RoleState& state) override {
    for (const auto& counter : state.counters) collected_->numbers.push_back(counter.value);
    return {};
  }

 private:
  std::int64_t limit_;
  std::shared_ptr<Collected> collected_;
};

inline RoleFactory factory(std::function<std::unique_ptr<Role>(const RoleIdentity&)> make) {
  return [make](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> { return make(identity); };
}

/// `producers` counters of `numbers` each into one collector.
inline Topology counting(std::int64_t producers, std::int64_t numbers, std::int64_t capacity,
                         std::shared_ptr<Collected> collected, ChannelKind kind = ChannelKind::kStream) {
  RoleSpec counter;
  counter.name = "counter";
  counter.count = producers;
  counter.outlets = {{"numbers", "Number", kind}};
  counter.make = factory([numbers](const RoleIdentity&) { return std::make_unique<Counter>(numbers); });
  counter.execution = Execution::kThread;
  RoleSpec collector;
  collector.name = "collector";
  collector.inlets = {{"numbers", "Number", kind}};
  collector.completes_run = true;
  const std::int64_t all = producers * numbers;
  collector.make =
      factory([all, collected](const RoleIdentity&) { return std::make_unique<Collector>(all, collected); });
  Topology topology;
  topology.roles = {counter, collector};
  topology.channels = {{"counter", "numbers", "collector", "numbers", capacity}};
  return topology;
}

inline bool never() { return false; }

}  // namespace troupe::actors::testing
