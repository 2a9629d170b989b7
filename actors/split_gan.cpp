#include <troupe/actors/split_gan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <troupe/actors/parameter_store.hpp>
#include <troupe/actors/replica_actor.hpp>
#include <troupe/actors/replica_exchange.hpp>
#include <troupe/actors/replica_parameters.hpp>
#include <troupe/actors/replica_publisher.hpp>
#include <troupe/actors/replica_topology.hpp>
#include <troupe/learner/sngan/adversaries.hpp>
#include <troupe/learner/sngan/fakes.hpp>
#include <troupe/learner/sngan/networks.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

using learner::sngan::kDiscriminatorGroup;

constexpr const char* kFakesPort = "fakes";
constexpr const char* kVersionsPort = "versions";
constexpr const char* kDiscriminatorPort = "discriminator";
/// More would only make fakes older.
constexpr std::int64_t kMaxCapacity = 4;

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
      TROUPE_ASSIGN(const auto newest, messages::read_parameters(inlet.take()));
      TROUPE_TRY(discriminator_->scatter(newest, program, name_));
      discriminator_step_ = newest.info().version;
    }
    version_ = program.step() / n_dis_;
    return context.out(kFakesPort).ready();
  }

  Status after_step(RoleContext& context, learner::Program& program, const BatchView& batch, bool first) override {
    TROUPE_ASSIGN(auto builder, messages::SampledBatchBuilder::make(context.pool(), columns_, batch.rows));
    for (std::size_t c = 0; c < columns_->size(); ++c) {
      const bool images = (*columns_)[c].name == learner::sngan::kFakes;  // the others are labels, of its input
      const auto from = images ? std::as_bytes(program.output(learner::sngan::kFakes))
                               : batch.columns[static_cast<std::size_t>(batch.find("label"))];
      std::ranges::copy(from, builder.columns().columns[c].begin());
    }
    std::ranges::fill(builder.rows().probabilities, 1.0);
    std::ranges::fill(builder.rows().parameters_versions, version_);
    context.out(kFakesPort).send(std::move(builder).finish({.sequence = static_cast<std::uint64_t>(program.step())}));
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
  const std::unique_ptr<learner::Replica> replica_;
  const std::shared_ptr<const Signature> columns_;
  const std::int64_t n_dis_;
  const std::string name_;
  std::optional<ReplicaParameters> discriminator_;
  std::int64_t discriminator_step_ = 0;  ///< of the parameters that are loaded
  std::int64_t version_ = 0;             ///< updates before the step that makes the images
  std::int64_t announced_ = -1;
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
      TROUPE_ASSIGN(const auto newest, messages::read_parameters_version(versions.take()));
      fakes_.set_newest(newest.version);
    }
    inlet_ = &context.in(kFakesPort);
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
    if (inlet_->empty()) return false;
    TROUPE_ASSIGN(auto batch, messages::read_batch(inlet_->take()));
    const auto owner = std::make_shared<const messages::SampledBatchView>(std::move(batch));
    const std::int64_t version = owner->rows().parameters_versions.empty() ? 0 : owner->rows().parameters_versions[0];
    TROUPE_TRY(fakes_.add(owner->columns(), version, owner));
    return true;
  }

  learner::sngan::Fakes fakes_;
  std::unique_ptr<learner::Replica> replica_;
  Inlet* inlet_ = nullptr;
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

Result<std::int64_t> fakes_capacity(const ReplicaGroupOptions& group, std::int64_t n_dis) {
  // Generators go on together, each by as many steps as it has credits: while a fake waits for its discriminator that
  // is capacity x discriminators. A discriminator that has it may need those of some further steps to fill its batch,
  // and what it leaves of the last one waits for its next step, so for as many again.
  const std::int64_t steps = group.max_staleness * n_dis, d = group.discriminators;
  if (const std::int64_t least = (3 * d + 2 + n_dis - 1) / n_dis; group.max_staleness < least) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("replicas.{}.max_staleness: got {} with {} discriminator{} and n_dis {}, expected at least {}",
                    group.name, group.max_staleness, d, d == 1 ? "" : "s", n_dis, least)};
  }
  return std::clamp<std::int64_t>((steps - d - 2) / (2 * d), 1, kMaxCapacity);
}

Status add_split_gan(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model) {
  if (!model.split) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("replicas.{}.replicator: got \"split_gan\" for a model that has no two sides", group.name)};
  }
  TROUPE_ASSIGN(const std::int64_t capacity, fakes_capacity(group, model.split->n_dis));
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
  topology.channels.push_back({generators.name, kFakesPort, discriminators.name, kFakesPort, capacity});
  topology.channels.push_back({generators.name, kVersionsPort, discriminators.name, kVersionsPort, 1});
  topology.channels.push_back({discriminators.name, kPublishPort, generators.name, kDiscriminatorPort, 1});
  return {};
}

}  // namespace troupe::actors
