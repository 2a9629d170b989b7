#include <troupe/actors/roles/split_gan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/roles/evaluation_publication.hpp>
#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/parameter_store.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/actors/roles/replicator_options.hpp>
#include <troupe/actors/roles/trainer.hpp>
#include <troupe/algorithms/sngan/adversaries.hpp>
#include <troupe/algorithms/sngan/fakes.hpp>
#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

using learner::sngan::kDiscriminatorGroup;

constexpr const char* kFakesPort = "fakes";
constexpr const char* kVersionsPort = "versions";
constexpr const char* kDiscriminatorPort = "discriminator";
/// Steps of a generator that may wait for a discriminator. It makes the next images when all discriminators have taken
/// what they were sent, so in the ordinary course one waits.
constexpr std::int64_t kFakesCapacity = 2;
/// When one has taken all and another has not for so long, the one may lack what was lost with a process, and the other
/// wait for it in their all-reduce: then all get more, which is what the second place is for.
constexpr Duration kPatience = std::chrono::milliseconds(200);

class GeneratorFeed final : public Feed {
 public:
  GeneratorFeed(std::unique_ptr<learner::Replica> replica, Signature fakes, std::int64_t n_dis, std::string name)
      : replica_(std::move(replica)),
        columns_(std::make_shared<const Signature>(std::move(fakes))),
        n_dis_(n_dis),
        name_(std::move(name)) {}

  learner::Replica& replica() override { return *replica_; }

  Status take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool first) override {
    learner::Program& program = replicator.program();
    if (std::exchange(made_, false)) TROUPE_TRY(send_fakes(context, program, replicator.batch(), first));
    if (most == 0) return {};
    if (!discriminator_) discriminator_.emplace(program, kDiscriminatorGroup);
    for (Inlet& inlet = context.in(kDiscriminatorPort); !inlet.empty();) {
      const auto newest = messages::read_parameters(inlet.take());
      const Status good = newest.ok() ? discriminator_->scatter(*newest, program, name_) : Status(newest.error());
      good.ok() ? void(discriminator_step_ = newest->info().version) : context.refuse(kDiscriminatorPort, good.error());
    }
    version_ = program.step() / n_dis_;
    wanted_ = fakes_are_wanted(context);
    return wanted_ && replicator.staged() == 0 ? replicator.stage() : Status();
  }

  Result<std::int64_t> begin(learner::Replicator& replicator, std::int64_t most) override {
    return wanted_ ? Feed::begin(replicator, most) : std::int64_t{0};
  }

  Status done(learner::Replicator&) override {
    made_ = true;
    return {};
  }

  void report(const learner::Replicator&, Report& report) const override {
    report.gauges.push_back({"discriminator_step", static_cast<double>(discriminator_step_)});
  }

 private:
  Status send_fakes(RoleContext& context, learner::Program& program, const BatchView& batch, bool first) {
    // Each discriminator gets its share of every step, as it uses them; who has more than enough is left out, and so
    // nobody starves while another one waits for it. Who gets the row that is left of an uneven division changes from
    // step to step.
    const auto shares = static_cast<std::int64_t>(receivers_.size());
    for (std::int64_t share = 0; share < shares; ++share) {
      const std::int64_t begin = share * batch.rows / shares, end = (share + 1) * batch.rows / shares;
      const auto consumer = static_cast<std::size_t>((share + program.step()) % shares);
      if (begin < end) TROUPE_TRY(send(context, program, batch, receivers_[consumer], begin, end));
    }
    const std::int64_t newest = program.step() / n_dis_;
    if (!first || newest == announced_) return {};
    TROUPE_ASSIGN(Frame announcement, messages::make_parameters_version(context.pool(), {newest}));
    context.out(kVersionsPort).send(std::move(announcement));
    announced_ = newest;
    return {};
  }

  /// Whether it is time for another step, and for whom.
  bool fakes_are_wanted(RoleContext& context) {
    const Outlet& fakes = context.out(kFakesPort);
    receivers_.clear();
    bool wanted = false, all = true;
    for (std::size_t consumer = 0; consumer < fakes.consumers(); ++consumer) {
      const std::int64_t credits = fakes.credits(consumer);
      if (credits == 0) continue;
      receivers_.push_back(consumer);
      if (credits == kFakesCapacity) {
        wanted = true;
      } else {
        all = false;
      }
    }
    if (!wanted || all) {
      wanted_since_.reset();
      return wanted;
    }
    const Duration now = context.clock().now();
    if (!wanted_since_) wanted_since_ = now;
    if (const Duration left = *wanted_since_ + kPatience - now; left > Duration{}) {
      context.wake_after(left);
      return false;
    }
    wanted_since_.reset();
    return true;
  }

  Status send(RoleContext& context, learner::Program& program, const BatchView& batch, std::size_t consumer,
              std::int64_t begin, std::int64_t end) {
    TROUPE_ASSIGN(auto builder, messages::SampledBatchBuilder::make(context.pool(), columns_, end - begin));
    for (std::size_t c = 0; c < columns_->size(); ++c) {
      const bool images = (*columns_)[c].name == learner::sngan::kFakes;  // the others are labels, of its input
      const std::span<const std::byte> from = images ? std::as_bytes(program.output(learner::sngan::kFakes))
                                                     : batch.columns[static_cast<std::size_t>(batch.find("label"))];
      const std::size_t each = (*columns_)[c].bytes();
      std::ranges::copy(
          from.subspan(static_cast<std::size_t>(begin) * each, static_cast<std::size_t>(end - begin) * each),
          builder.columns().columns[c].begin());
    }
    std::ranges::fill(builder.rows().probabilities, 1.0);
    std::ranges::fill(builder.rows().parameters_versions, version_);
    context.out(kFakesPort)
        .send_to(consumer, std::move(builder).finish({.sequence = static_cast<std::uint64_t>(program.step())}));
    return {};
  }

  const std::unique_ptr<learner::Replica> replica_;
  const std::shared_ptr<const Signature> columns_;
  const std::int64_t n_dis_;
  const std::string name_;
  std::optional<ReplicaParameters> discriminator_;
  std::int64_t discriminator_step_ = 0;  ///< of the parameters that are loaded
  std::int64_t version_ = 0;             ///< updates before the step that makes the images
  std::int64_t announced_ = -1;
  bool made_ = false;                     ///< images that are not sent yet
  bool wanted_ = false;                   ///< it is time for another step
  std::optional<Duration> wanted_since_;  ///< when some, but not all, discriminators had taken all
  std::vector<std::size_t> receivers_;    ///< the discriminators that have room for the images of the step under way
};

class DiscriminatorFeed final : public Feed {
 public:
  DiscriminatorFeed(Signature fakes, std::int64_t max_staleness) : fakes_(std::move(fakes), max_staleness) {}

  Status make_replica(const SplitModel& model) {
    TROUPE_ASSIGN(replica_, model.make_discriminator([this](std::unique_ptr<learner::InputPipeline> real) {
      return learner::sngan::with_fakes(std::move(real), fakes_, [this] { return take_fakes(); });
    }));
    return {};
  }

  learner::Replica& replica() override { return *replica_; }

  Status take(RoleContext& context, learner::Replicator& replicator, std::int64_t most, bool first) override {
    if (std::exchange(stepped_, false) && first) {
      learner::Program& program = replicator.program();
      if (!parameters_) parameters_.emplace(program, kDiscriminatorGroup);
      TROUPE_ASSIGN(Frame newest, parameters_->frame(context.pool(), program, program.step()));
      context.out(kPublishPort).send(std::move(newest));
    }
    if (most == 0 || replicator.staged() > 0) return {};
    for (Inlet& versions = context.in(kVersionsPort); !versions.empty();) {
      const auto newest = messages::read_parameters_version(versions.take());
      newest.ok() ? fakes_.set_newest(newest->version) : context.refuse(kVersionsPort, newest.error());
    }
    fakes_inlet_ = &context.in(kFakesPort);
    waiting_.clear();
    Status staged = replicator.stage();
    if (staged.ok() || staged.error().code != Code::kUnavailable) return staged;
    waiting_ = staged.error().message;
    context.wake_after(kInputPatience);
    return {};
  }

  Status done(learner::Replicator&) override {
    stepped_ = true;
    return {};
  }

  std::string waiting_for() const override { return waiting_; }
  void report(const learner::Replicator& replicator, Report& report) const override {
    for (Scalar& gauge : replicator.input().gauges()) report.gauges.push_back(std::move(gauge));
    report_staleness(fakes_.staleness(), report);
    report.counters.push_back({"fakes_used", static_cast<double>(fakes_.staleness().uses())});
    report.counters.push_back({"fakes_dropped", static_cast<double>(fakes_.dropped())});
  }

 private:
  /// When a step is staged and the input has too few.
  Result<bool> take_fakes() {
    if (fakes_inlet_->empty()) return false;
    TROUPE_ASSIGN(auto batch, messages::read_batch(fakes_inlet_->take()));
    const auto owner = std::make_shared<const messages::SampledBatchView>(std::move(batch));
    const std::int64_t version = owner->rows().parameters_versions.empty() ? 0 : owner->rows().parameters_versions[0];
    TROUPE_TRY(fakes_.add(owner->columns(), version, owner));
    return true;
  }

  learner::sngan::Fakes fakes_;
  std::unique_ptr<learner::Replica> replica_;
  Inlet* fakes_inlet_ = nullptr;
  std::optional<ReplicaParameters> parameters_;
  bool stepped_ = false;  ///< and the parameters are not sent yet
  std::string waiting_;
};

FeedSpec generator_feed(const SplitModel& model, const std::string& name) {
  return {.inlets = {{kDiscriminatorPort, "Parameters", ChannelKind::kLatest}},
          .outlets = {{kFakesPort, "Batch"}, {kVersionsPort, "ParametersVersion", ChannelKind::kLatest}},
          .make = [model, name](const RoleIdentity&) -> Result<std::unique_ptr<Feed>> {
            TROUPE_ASSIGN(auto replica, model.make_generator());
            TROUPE_ASSIGN(Signature fakes, model.fakes());
            return {std::make_unique<GeneratorFeed>(std::move(replica), std::move(fakes), model.n_dis, name)};
          }};
}

FeedSpec discriminator_feed(const SplitModel& model, std::int64_t max_staleness) {
  return {.inlets = {{kFakesPort, "Batch"}, {kVersionsPort, "ParametersVersion", ChannelKind::kLatest}},
          .outlets = {{kPublishPort, "Parameters", ChannelKind::kLatest}},
          .make = [model, max_staleness](const RoleIdentity&) -> Result<std::unique_ptr<Feed>> {
            TROUPE_ASSIGN(Signature fakes, model.fakes());
            auto feed = std::make_unique<DiscriminatorFeed>(std::move(fakes), max_staleness);
            TROUPE_TRY(feed->make_replica(model));
            return {std::move(feed)};
          }};
}

}  // namespace

Status add_split_gan(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model,
                     const std::function<Status(learner::Program&)>& begin_with) {
  if (!model.split) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("replicas.{}.replicator: got \"split_gan\" for a model that has no two sides", group.name)};
  }
  TROUPE_TRY(check_staleness(group, model.split->n_dis));
  const auto members = [](std::int64_t count) { return count > 1 ? "multi_worker" : "one_device"; };
  ReplicaGroupOptions generators = group, discriminators = group;
  generators.replicator = members(group.count);
  discriminators.name = discriminator_name(group);
  discriminators.count = group.discriminators;
  discriminators.replicator = members(group.discriminators);
  TROUPE_ASSIGN(const auto how_generators, replicator_options(generators));
  TROUPE_ASSIGN(const auto how_discriminators, replicator_options(discriminators));
  topology.roles.push_back(
      replica_trainer(generators.name, {.feed = generator_feed(*model.split, group.name),
                                        .publication = evaluation_publication(model, group.evaluate_every_steps),
                                        .how = how_generators,
                                        .count = generators.count,
                                        .max_steps = generators.steps,
                                        .begin_with = begin_with}));
  // Its steps are as many as there are fakes for.
  topology.roles.push_back(
      replica_trainer(discriminators.name, {.feed = discriminator_feed(*model.split, group.max_staleness),
                                            .how = how_discriminators,
                                            .count = discriminators.count,
                                            .begin_with = begin_with}));
  topology.channels.push_back({generators.name, kFakesPort, discriminators.name, kFakesPort, kFakesCapacity});
  topology.channels.push_back({generators.name, kVersionsPort, discriminators.name, kVersionsPort, 1});
  topology.channels.push_back({discriminators.name, kPublishPort, generators.name, kDiscriminatorPort, 1});
  return {};
}

}  // namespace troupe::actors
