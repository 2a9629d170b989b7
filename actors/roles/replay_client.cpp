#include <troupe/actors/roles/replay_client.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <troupe/actors/roles/sampled_rows.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/journal.hpp>

namespace troupe::actors {
namespace {

/// Trajectories of clients come with numbers of their own in replay's journal, behind those of all env actors.
constexpr std::uint32_t kFirstProducer = replay::kMaxJournalProducers / 2;

Error no_client(const std::string& role) {
  return {Code::kInvalidArgument,
          fmt::format("role \"{}\": its instances are programs of the user's that use ReplayClient (docs/replay.md), "
                      "and no `troupe node`",
                      role)};
}

Error late(const char* what, Duration timeout) {
  return {Code::kDeadlineExceeded, fmt::format("{} within {:.3g} s", what, seconds(timeout))};
}
Error not_taken_in(Duration timeout) { return late("the run did not take this client in", timeout); }
Error no_batch(Duration timeout) { return late("replay did not give a batch", timeout); }

}  // namespace

RoleSpec external_role(std::string name, RoleFactory make) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = 0;
  spec.outlets = {{"trajectories", "Trajectory"},
                  {"priorities", "Priorities"},
                  {.name = "samples", .type = "SampleRequest", .kind = ChannelKind::kRequest, .answer = "Batch"}};
  spec.make = make != nullptr ? std::move(make) : [](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
    return no_client(identity.role);
  };
  spec.elastic = true;
  spec.restart.quarantine = true;
  return spec;
}

/// What a thread wants. The instance does it and says so under the client's lock.
struct ReplayClient::Work {
  enum class Kind { kInsert, kSample, kInfo, kPriorities } kind = Kind::kInsert;
  // What is sent, made on the caller's thread out of values that it owns.
  const BatchView* rows = nullptr;
  std::span<const double> priorities;
  std::int64_t env_steps = 0;
  std::int64_t sample_rows = 0;
  Duration timeout{};
  std::size_t shard = 0;
  messages::PriorityUpdate update;

  bool sent = false;  ///< a sample: asked for
  bool done = false;
  Status ended;
  std::optional<ReplayBatch> drawn;
};

class ReplayClient::Instance final : public Role {
 public:
  Instance(ReplayClient& client, const RoleIdentity& identity)
      : client_(client), identity_(identity), mix_(client.shards_) {}
  ~Instance() override {
    const std::lock_guard lock(client_.mutex_);
    client_.wake_ = nullptr;
  }

  Result<Progress> step(RoleContext& context) override {
    const std::lock_guard lock(client_.mutex_);
    if (client_.wake_ == nullptr) {
      client_.wake_ = context.waker();
      client_.changed_.notify_all();
    }
    bool any = false;
    for (const std::shared_ptr<Work>& work : client_.waiting_) any |= !work->sent && begin(context, work);
    std::erase_if(client_.waiting_, [](const auto& work) { return work->done || work->sent; });
    if (any) client_.changed_.notify_all();
    return Progress::kIdle;
  }

 private:
  /// True when it is done or on its way.
  bool begin(RoleContext& context, const std::shared_ptr<Work>& work) {
    switch (work->kind) {
      case Work::Kind::kInsert:
        return insert(context, *work);
      case Work::Kind::kSample:
        return sample(context, work);
      case Work::Kind::kInfo:
        return ask(context, work, work->shard);
      case Work::Kind::kPriorities:
        return set_priorities(context, *work);
    }
    return false;
  }

  static bool end(Work& work, Status how) {
    work.done = true;
    work.ended = std::move(how);
    return true;
  }

  bool insert(RoleContext& context, Work& work) {
    Outlet& outlet = context.out("trajectories");
    if (!outlet.ready()) return false;
    auto builder = messages::TrajectoryBuilder::make(
        context.pool(),
        {std::make_shared<const Signature>(*work.rows->signature), work.rows->rows, !work.priorities.empty()});
    if (!builder.ok()) return end(work, builder.error());
    for (std::size_t i = 0; i < work.rows->columns.size(); ++i) {
      std::ranges::copy(work.rows->columns[i], builder->rows().columns[i].begin());
    }
    std::ranges::copy(work.priorities, builder->priorities().begin());
    outlet.send(std::move(*builder).finish({.producer = kFirstProducer + static_cast<std::uint32_t>(identity_.index),
                                            .incarnation = static_cast<std::uint32_t>(identity_.incarnation),
                                            .sequence = trajectories_++,
                                            .env_steps = work.env_steps},
                                           work.rows->rows));
    return end(work, {});
  }

  bool set_priorities(RoleContext& context, Work& work) {
    Outlet& outlet = context.out("priorities");
    if (!outlet.ready(work.shard)) return false;
    auto frame = messages::make_priorities(context.pool(), work.update);
    if (!frame.ok()) return end(work, frame.error());
    outlet.send_to(work.shard, std::move(frame).value());
    return end(work, {});
  }

  bool sample(RoleContext& context, const std::shared_ptr<Work>& work) {
    Caller& caller = context.caller("samples");
    std::vector<bool> ready(client_.shards_);
    for (std::size_t shard = 0; shard < ready.size(); ++shard) {
      ready[shard] = caller.ready(shard);
      if (mix_.shards()[shard].items == 0) mix_.observe(shard, 1, 1);  // nothing is known of it yet
    }
    const auto shard = mix_.pick(ready);
    return shard && ask(context, work, *shard);
  }

  bool ask(RoleContext& context, const std::shared_ptr<Work>& work, std::size_t shard) {
    Caller& caller = context.caller("samples");
    if (!caller.ready(shard)) return false;
    const auto timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(work->timeout).count();
    auto request = messages::make_sample_request(
        context.pool(),
        {work->sample_rows, static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout_ms, 1, 1 << 30))});
    if (!request.ok()) return end(*work, request.error());
    work->sent = true;
    caller.call_to(shard, std::move(request).value(), work->timeout,
                   [this, work, shard](Result<Frame> answer) { drawn(*work, shard, std::move(answer)); });
    return true;
  }

  /// On the instance's thread, between two steps or within one that holds no lock.
  void drawn(Work& work, std::size_t shard, Result<Frame> answer) {
    auto batch = answer.ok() ? messages::read_batch(*answer) : Result<messages::SampledBatchView>(answer.error());
    const std::lock_guard lock(client_.mutex_);
    if (batch.ok()) {
      mix_.observe(shard, batch->info().table_items, batch->info().table_mass);
      work.drawn = ReplayBatch{std::move(batch).value(), shard};
      end(work, {});
    } else if (batch.error().code == Code::kCancelled) {
      end(work, Error{Code::kCancelled, fmt::format("replay refuses to draw {} rows, more than its rate limiter could "
                                                    "ever admit",
                                                    work.sample_rows)});
    } else if (batch.error().code == Code::kDeadlineExceeded) {
      end(work, no_batch(work.timeout));
    } else {
      end(work, batch.error());
    }
    client_.changed_.notify_all();
  }

  ReplayClient& client_;
  const RoleIdentity identity_;
  replay::ShardMix mix_;
  std::uint64_t trajectories_ = 0;
};

ReplayClient::ReplayClient(std::size_t shards) : shards_(shards) {}
ReplayClient::~ReplayClient() = default;

RoleFactory ReplayClient::factory() {
  return [this](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
    return {std::make_unique<Instance>(*this, identity)};
  };
}

Status ReplayClient::ready(Duration timeout) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, timeout, [&] { return wake_ != nullptr || closed_; })) {
    return closed_ ? Status(*closed_) : Status();
  }
  return not_taken_in(timeout);
}

Status ReplayClient::do_it(const std::shared_ptr<Work>& work, Duration timeout) {
  work->timeout = timeout;
  std::unique_lock lock(mutex_);
  if (closed_) return *closed_;
  waiting_.push_back(work);
  if (wake_ != nullptr) wake_();
  changed_.wait_for(lock, timeout, [&] { return work->done || closed_; });
  if (work->done) return work->ended;
  std::erase(waiting_, work);
  if (closed_) return *closed_;
  if (wake_ == nullptr) return not_taken_in(timeout);
  return work->sent ? no_batch(timeout) : late("replay had no room", timeout);
}

Status ReplayClient::insert(const BatchView& rows, std::span<const double> priorities, std::int64_t env_steps,
                            Duration timeout) {
  if (rows.rows < 1) return Error{Code::kInvalidArgument, "insert: there are no rows"};
  if (!priorities.empty() && static_cast<std::int64_t>(priorities.size()) != rows.rows) {
    return Error{Code::kShapeMismatch, fmt::format("insert: {} priorities for {} rows", priorities.size(), rows.rows)};
  }
  for (const double priority : priorities) {
    if (!replay::valid_priority(priority)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("insert: priority {}, expected 0..{}", priority, replay::kMaxPriority)};
    }
  }
  const auto work = std::make_shared<Work>();
  work->rows = &rows;
  work->priorities = priorities;
  work->env_steps = env_steps;
  return do_it(work, timeout);
}

Result<ReplayBatch> ReplayClient::sample(std::int64_t rows, Duration timeout) {
  if (rows < 1 || rows > messages::kMostSampleRows) {
    return Error{Code::kInvalidArgument,
                 fmt::format("sample: got {} rows, expected 1..{}", rows, messages::kMostSampleRows)};
  }
  const auto work = std::make_shared<Work>();
  work->kind = Work::Kind::kSample;
  work->sample_rows = rows;
  TROUPE_TRY(do_it(work, timeout));
  return *std::move(work->drawn);
}

Result<replay::TableInfo> ReplayClient::info(Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  replay::TableInfo whole;
  for (std::size_t shard = 0; shard < shards_; ++shard) {
    const auto work = std::make_shared<Work>();
    work->kind = Work::Kind::kInfo;
    work->shard = shard;
    TROUPE_TRY(do_it(work, std::max<Duration>(deadline - std::chrono::steady_clock::now(), Duration::zero())));
    const replay::TableInfo info = table_info(work->drawn->batch.info());
    whole.items += info.items;
    whole.bytes += info.bytes;
    whole.inserts += info.inserts;
    whole.samples += info.samples;
    whole.evictions += info.evictions;
  }
  return whole;
}

Status ReplayClient::update_priorities(std::size_t shard, messages::PriorityUpdate update, Duration timeout) {
  if (shard >= shards_) {
    return Error{Code::kInvalidArgument, fmt::format("update_priorities: a key of shard {} of {}", shard, shards_)};
  }
  const auto work = std::make_shared<Work>();
  work->kind = Work::Kind::kPriorities;
  work->shard = shard;
  work->update = std::move(update);
  return do_it(work, timeout);
}

void ReplayClient::close(Error why) {
  const std::lock_guard lock(mutex_);
  closed_ = std::move(why);
  changed_.notify_all();
}

}  // namespace troupe::actors
