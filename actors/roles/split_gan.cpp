#include <troupe/actors/roles/split_gan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <troupe/actors/roles/parameter_store.hpp>
#include <troupe/actors/roles/replica_actor.hpp>
#include <troupe/actors/roles/replica_exchange.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>
#include <troupe/actors/roles/replica_publisher.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
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

class GeneratorExchange final : public ReplicaExchange {
 public:
  GeneratorExchange(std::unique_ptr<learner::Replica> replica, Signature fakes, std::int64_t n_dis, std::string name)
      : replica_(std::move(replica)),
        columns_(std::make_shared<const Signature>(std::move(fakes))),
        n_dis_(n_dis),
        name_(std::move(name)) {}

  learner::Replica& replica() override { return *replica_; }

  Result<bool> before_step(RoleContext& context, learner::Program& program) override {
    if (!discriminator_) discriminator_.emplace(program, kDiscriminatorGroup);
    for (Inlet& inlet = context.in(kDiscriminatorPort); !inlet.empty();) {
      const auto newest = messages::read_parameters(inlet.take());
      const Status good = newest.ok() ? discriminator_->scatter(*newest, program, name_) : Status(newest.error());
      good.ok() ? void(discriminator_step_ = newest->info().version) : context.refuse(kDiscriminatorPort, good.error());
    }
    version_ = program.step() / n_dis_;
    return fakes_are_wanted(context);
  }

  Status after_step(RoleContext& context, learner::Program& program, const BatchView& batch, bool first) override {
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

  void report(Report& report) const override {
    report.gauges.push_back({"discriminator_step", static_cast<double>(discriminator_step_)});
  }

 private:
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
  std::optional<Duration> wanted_since_;  ///< when some, but not all, discriminators had taken all
  std::vector<std::size_t> receivers_;    ///< the discriminators that have room for the images of the step under way
};

class DiscriminatorExchange final : public ReplicaExchange {
 public:
  DiscriminatorExchange(Signature fakes, std::int64_t max_staleness) : fakes_(std::move(fakes), max_staleness) {}

  Status make_replica(const SplitModel& model) {
    TROUPE_ASSIGN(replica_, model.make_discriminator([this](std::unique_ptr<learner::InputPipeline> real) {
      return learner::sngan::with_fakes(std::move(real), fakes_, [this] { return take_fakes(); });
    }));
    return {};
  }

  learner::Replica& replica() override { return *replica_; }

  Result<bool> before_step(RoleContext& context, learner::Program&) override {
    for (Inlet& versions = context.in(kVersionsPort); !versions.empty();) {
      const auto newest = messages::read_parameters_version(versions.take());
      newest.ok() ? fakes_.set_newest(newest->version) : context.refuse(kVersionsPort, newest.error());
    }
    fakes_inlet_ = &context.in(kFakesPort);
    return true;
  }

  Status after_step(RoleContext& context, learner::Program& program, const BatchView&, bool first) override {
    if (!first) return {};
    if (!parameters_) parameters_.emplace(program, kDiscriminatorGroup);
    TROUPE_ASSIGN(Frame newest, parameters_->frame(context.pool(), program, program.step()));
    context.out(kPublishPort).send(std::move(newest));
    return {};
  }

  void report(Report& report) const override {
    report_staleness(fakes_.staleness(), report);
    report.counters.push_back({"fakes_used", static_cast<double>(fakes_.staleness().uses())});
    report.counters.push_back({"fakes_dropped", static_cast<double>(fakes_.dropped())});
  }

 private:
  /// Within a step, when the input has too few.
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
};

ReplicaExchangeSpec generator_exchange(const SplitModel& model, const std::string& name) {
  return {.make = [model, name]() -> Result<std::unique_ptr<ReplicaExchange>> {
            TROUPE_ASSIGN(auto replica, model.make_generator());
            TROUPE_ASSIGN(Signature fakes, model.fakes());
            return {std::make_unique<GeneratorExchange>(std::move(replica), std::move(fakes), model.n_dis, name)};
          },
          .inlets = {{kDiscriminatorPort, "Parameters", ChannelKind::kLatest}},
          .outlets = {{kFakesPort, "Batch"}, {kVersionsPort, "ParametersVersion", ChannelKind::kLatest}}};
}

ReplicaExchangeSpec discriminator_exchange(const SplitModel& model, std::int64_t max_staleness) {
  return {.make = [model, max_staleness]() -> Result<std::unique_ptr<ReplicaExchange>> {
            TROUPE_ASSIGN(Signature fakes, model.fakes());
            auto exchange = std::make_unique<DiscriminatorExchange>(std::move(fakes), max_staleness);
            TROUPE_TRY(exchange->make_replica(model));
            return {std::move(exchange)};
          },
          .inlets = {{kFakesPort, "Batch"}, {kVersionsPort, "ParametersVersion", ChannelKind::kLatest}},
          .outlets = {{kPublishPort, "Parameters", ChannelKind::kLatest}}};
}

}  // namespace

Status add_split_gan(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model) {
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
  discriminators.steps = std::numeric_limits<std::int64_t>::max();  // as many as there are fakes for
  ReplicaModel adversary = model;
  adversary.make_evaluation = nullptr;
  topology.roles.push_back(ReplicaActor::spec(
      {.model = model, .group = generators, .exchange = generator_exchange(*model.split, group.name)}));
  topology.roles.push_back(ReplicaActor::spec({.model = std::move(adversary),
                                               .group = discriminators,
                                               .exchange = discriminator_exchange(*model.split, group.max_staleness)}));
  topology.channels.push_back({generators.name, kFakesPort, discriminators.name, kFakesPort, kFakesCapacity});
  topology.channels.push_back({generators.name, kVersionsPort, discriminators.name, kVersionsPort, 1});
  topology.channels.push_back({discriminators.name, kPublishPort, generators.name, kDiscriminatorPort, 1});
  return {};
}

}  // namespace troupe::actors
