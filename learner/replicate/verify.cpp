#include <troupe/learner/replicate/verify.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include <troupe/collectives/delivery.hpp>
#include <troupe/collectives/group_communicator.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>

namespace troupe::learner {
namespace {

constexpr Duration kMeetingTimeout = std::chrono::seconds(60);

/// What one run leaves of a variable.
struct Trained {
  std::string name;
  std::vector<float> gradient, values;
  std::vector<bool> rounding;  ///< elements whose gradient was nothing else in some step
};

/// Of the largest element of a gradient: what is below is what sums in another order leave of nothing.
constexpr float kRounding = 1e-5F;

void find_rounding(std::span<const float> gradient, std::vector<bool>& rounding) {
  float largest = 0;
  for (const float x : gradient) largest = std::max(largest, std::abs(x));
  rounding.resize(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (std::abs(gradient[i]) < kRounding * largest) rounding[i] = true;
  }
}

/// Calls visit(entry, gradient, values) for every variable that is trained.
template <typename Visit>
void for_each_variable(Program& program, const Visit& visit) {
  for (std::size_t g = 0; g < program.group_count(); ++g) {
    ParamBuffer& group = program.group(g);
    const std::span<float> gradient = program.gradient(group.layout().group);
    if (gradient.empty()) continue;
    for (const ParamEntry& entry : group.layout().entries) {
      const auto at = static_cast<std::size_t>(entry.offset), count = static_cast<std::size_t>(entry.shape.elements());
      visit(entry, gradient.subspan(at, count), group.values().subspan(at, count));
    }
  }
}

/// What `steps` steps leave on the first replica, whose result counts, since replicas agree bit for bit.
Result<std::vector<Trained>> train(Replicator& replicator, std::int64_t steps) {
  std::vector<Trained> trained;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t before = replicator.program().step();
    while (replicator.program().step() == before) TROUPE_TRY(replicator.step());  // several batches, where they add up
    std::size_t index = 0;
    for_each_variable(replicator.program(), [&](const ParamEntry& entry, auto gradient, auto) {
      if (step == 0) trained.push_back({entry.name, {gradient.begin(), gradient.end()}, {}, {}});
      find_rounding(gradient, trained[index++].rounding);
    });
  }
  std::size_t index = 0;
  for_each_variable(replicator.program(), [&](const ParamEntry&, auto, auto values) {
    trained[index++].values.assign(values.begin(), values.end());
  });
  return trained;
}

/// The way of one member to the others by messages, as between processes: values are rounded on it as they are there.
class MemberLink final : public collectives::Peers {
 public:
  MemberLink(const std::vector<std::unique_ptr<MemberLink>>& all, std::uint32_t rank) : all_(all), rank_(rank) {}

  Status send(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body) override {
    auto bytes = std::make_shared<std::vector<std::byte>>(head.begin(), head.end());
    bytes->insert(bytes->end(), body.begin(), body.end());
    all_[member]->delivery_.put({rank_, *bytes, bytes});
    return {};
  }
  Status lend(std::uint32_t member, std::span<const std::byte> head, std::shared_ptr<const LentBytes> body) override {
    return body->with([&](std::span<const std::byte> lent) { return send(member, head, lent); });
  }
  void deliver_to(std::function<void(collectives::PeerMessage)> receiver) override {
    delivery_.deliver_to(std::move(receiver));
  }

 private:
  const std::vector<std::unique_ptr<MemberLink>>& all_;
  const std::uint32_t rank_;
  collectives::Delivery delivery_;
};

/// One member of a group.
Result<std::vector<Trained>> train_member(Replica& replica, collectives::Communicator& communicator, int rank,
                                          int replicas, const VerifyOptions& options) {
  ReplicatorOptions how = options.how;
  how.communicator = &communicator;
  if (!how.devices.empty()) how.compile.device = device_of(how.devices, rank);
  TROUPE_ASSIGN(const auto worker, make_replicator(replica, how));
  collectives::GroupView view{.epoch = 1, .rank = rank, .size = replicas};
  for (int r = 0; r < replicas; ++r) {  // each as if on a host of its own, so that nothing goes by shared memory
    view.members.push_back({static_cast<std::uint32_t>(r), fmt::format("replica {}", r), fmt::format("host {}", r)});
  }
  TROUPE_TRY(static_cast<MultiWorker&>(*worker).reform(view, kMeetingTimeout));
  return train(*worker, options.steps);
}

Result<std::vector<Trained>> train_with(int replicas, const ReplicaFactory& make, const VerifyOptions& options) {
  if (options.how.kind != ReplicatorKind::kMultiWorker) {
    ReplicatorOptions how = options.how;
    how.replicas = replicas;
    if (how.kind == ReplicatorKind::kOneDevice && replicas > 1) how.kind = ReplicatorKind::kMultiDevice;
    TROUPE_ASSIGN(const auto replica, make());
    TROUPE_ASSIGN(const auto replicator, make_replicator(*replica, how));
    return train(*replicator, options.steps);
  }
  std::vector<std::unique_ptr<MemberLink>> links;
  std::vector<std::unique_ptr<Replica>> made;
  std::vector<std::unique_ptr<collectives::Communicator>> communicators;
  for (int rank = 0; rank < replicas; ++rank) {
    TROUPE_ASSIGN(auto replica, make());
    made.push_back(std::move(replica));
    links.push_back(std::make_unique<MemberLink>(links, static_cast<std::uint32_t>(rank)));
  }
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    communicators.push_back(collectives::make_group_communicator(*links[rank], static_cast<std::uint32_t>(rank),
                                                                 {.deterministic = options.how.deterministic}));
  }
  std::vector<Result<std::vector<Trained>>> results(made.size(), Error{Code::kInternal, "verify: did not run"});
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < made.size(); ++r) {
      threads.emplace_back([&, r] {
        results[r] = train_member(*made[r], *communicators[r], static_cast<int>(r), replicas, options);
        if (results[r].ok()) return;
        for (const auto& communicator : communicators) communicator->abort(results[r].error().message, 1);
      });
    }
  }
  // The first cause, not the abort that it led to.
  for (const auto& result : results) {
    if (!result.ok() && result.error().code != Code::kCancelled) return result.error();
  }
  return std::move(results.front());
}

double relative(const std::vector<float>& got, const std::vector<float>& expected,
                const std::vector<bool>& without = {}) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!without.empty() && without[i]) continue;
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  if (difference == 0) return 0;
  return std::isfinite(difference) && largest > 0 ? difference / largest : std::numeric_limits<double>::infinity();
}

class RandomBatches final : public InputPipeline {
 public:
  RandomBatches(Signature signature, std::uint64_t seed, const InputContext& context)
      : signature_(std::move(signature)), seed_(seed), context_(context), step_(context.first_step) {
    first_ = context.global_batch * context.replica_id / context.replica_count;
    for (const TensorSpec& column : signature_) {
      columns_.emplace_back(column.bytes() * static_cast<std::size_t>(context.replica_batch));
    }
  }
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    BatchView batch{&signature_, context_.replica_batch, {}};
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (signature_[c].dtype == DType::kF32) fill(c, [](Rng& rng) { return static_cast<float>(rng.uniform()); });
      if (signature_[c].dtype == DType::kU8)
        fill(c, [](Rng& rng) { return static_cast<std::uint8_t>(rng.below(256)); });
      batch.columns.push_back(std::as_bytes(std::span(columns_[c])));
    }
    ++step_;
    return batch;
  }

 private:
  template <typename Draw>
  void fill(std::size_t column, Draw draw) {
    auto* to = reinterpret_cast<std::invoke_result_t<Draw, Rng&>*>(columns_[column].data());
    const std::int64_t elements = signature_[column].shape.elements();
    for (std::int64_t row = 0; row < context_.replica_batch; ++row) {
      const auto number = static_cast<std::uint64_t>(step_ * context_.global_batch + first_ + row);
      Rng rng(derive_seed(derive_seed(seed_, "row", number), "column", column));
      for (std::int64_t i = 0; i < elements; ++i) *to++ = draw(rng);
    }
  }

  const Signature signature_;
  const std::uint64_t seed_;
  const InputContext context_;
  std::int64_t step_, first_ = 0;
  std::vector<std::vector<std::byte>> columns_;
};

}  // namespace

double Equivalence::largest() const {
  double largest = 0;
  for (const VariableDifference& variable : variables) {
    largest = std::max({largest, variable.gradient, variable.parameter});
  }
  return largest;
}

Result<std::vector<Equivalence>> verify_equivalence(const ReplicaFactory& make, const VerifyOptions& asked) {
  VerifyOptions options = asked;
  options.how.compile.keep_gradients = true;
  const auto bad = std::ranges::find_if(options.replicas, [&](int n) { return n < 1 || n > options.how.global_batch; });
  if (options.replicas.empty() || bad != options.replicas.end() || options.steps < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("verify: {} replicas, {} steps, a global batch of {} rows: expected at least one step and "
                             "1 to {} replicas",
                             fmt::join(options.replicas, ","), options.steps, options.how.global_batch,
                             options.how.global_batch)};
  }
  TROUPE_ASSIGN(const std::vector<Trained> one, train_with(1, make, options));
  if (one.empty()) return Error{Code::kInvalidArgument, "verify: the replica trains nothing: no minimize()"};
  std::vector<Equivalence> all;
  for (const int replicas : options.replicas) {
    TROUPE_ASSIGN(const std::vector<Trained> several, train_with(replicas, make, options));
    Equivalence& found = all.emplace_back(Equivalence{replicas, {}});
    for (std::size_t i = 0; i < one.size(); ++i) {
      found.variables.push_back({one[i].name, relative(several[i].gradient, one[i].gradient),
                                 relative(several[i].values, one[i].values, one[i].rounding)});
    }
  }
  return all;
}

InputFn random_batches(Signature signature, std::uint64_t seed) {
  return
      [signature = std::move(signature), seed](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> {
        return {std::make_unique<RandomBatches>(signature, seed, context)};
      };
}

}  // namespace troupe::learner
