// Every Cap'n Proto root that travels. What parses is read whole, and what has a writer is written and read again.
#include <algorithm>
#include <array>

#include <troupe/core/stacks.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/tests/messages/samples.hpp>

namespace troupe::fuzz {
namespace {

using namespace messages;

/// What `make` writes of what `read` found must be read as the same; `read` may be refused, its answer may not.
template <typename Read, typename Make>
void round_trip(const Frame& frame, Read read, Make make) {
  const auto got = read(frame);
  if (!got.ok()) return;
  FramePool pool;
  const auto first = make(pool, *got);
  TROUPE_CHECK(first.ok(), "what was read is not written: {}", first.error().message);
  const auto again = read(*first);
  TROUPE_CHECK(again.ok(), "what was written is not read: {}", again.error().message);
  const auto second = make(pool, *again);
  TROUPE_CHECK(second.ok() && same(first->bytes(), second->bytes()), "a message changed");
}

Result<Frame> remake(FramePool& pool, const TrajectoryView& view) {
  const bool priorities = !view.priorities().empty();
  const auto signature = std::make_shared<const Signature>(view.signature());
  TROUPE_ASSIGN(
      auto builder,
      TrajectoryBuilder::make(pool, {.signature = signature, .max_rows = view.rows().rows, .priorities = priorities}));
  const Stacks stacks(*signature);
  WholeRows whole(stacks);
  const BatchView rows = whole.of(view.rows());
  for (std::size_t c = 0; c < signature->size(); ++c) {
    std::ranges::copy(rows.columns[c], builder.rows().columns[c].begin());
  }
  std::ranges::copy(view.priorities(), builder.priorities().begin());
  return std::move(builder).finish(view.info(), view.rows().rows);
}

/// A few bytes that name planes are many when they are joined.
bool small(const TrajectoryView& view) {
  constexpr std::size_t kMost = std::size_t{1} << 22;
  return row_bytes(view.signature()) <= kMost / static_cast<std::size_t>(std::max<std::int64_t>(1, view.rows().rows));
}

Result<Frame> remake(FramePool& pool, const SampledBatchView& view) {
  const auto signature = std::make_shared<const Signature>(*view.columns().signature);
  const bool sequences = !view.rows().lengths.empty();
  TROUPE_ASSIGN(auto builder, SampledBatchBuilder::make(pool, signature, view.columns().rows, sequences));
  for (std::size_t c = 0; c < signature->size(); ++c) {
    std::ranges::copy(view.columns().columns[c], builder.columns().columns[c].begin());
  }
  const auto& from = view.rows();
  const auto& to = builder.rows();
  std::ranges::copy(from.keys, to.keys.begin());
  std::ranges::copy(from.probabilities, to.probabilities.begin());
  std::ranges::copy(from.priorities, to.priorities.begin());
  std::ranges::copy(from.times_sampled, to.times_sampled.begin());
  std::ranges::copy(from.parameters_versions, to.parameters_versions.begin());
  std::ranges::copy(from.lengths, to.lengths.begin());
  return std::move(builder).finish(view.info());
}

Result<Frame> remake(FramePool& pool, const StepsView& view) {
  return make_steps(pool, view.info(), view.rows(), view.items(), view.ends());
}

Result<Frame> remake(FramePool& pool, const ParametersView& view) {
  TROUPE_ASSIGN(auto builder, ParametersBuilder::make(pool, view.info().dtype, view.piece()));
  std::ranges::copy(view.data(), builder.data().begin());
  return std::move(builder).finish(view.info());
}

const auto kRemake = [](FramePool& pool, const auto& view) { return remake(pool, view); };

void round_trips(const Frame& frame) {
  if (const auto trajectory = read_trajectory(frame); trajectory.ok() && small(*trajectory)) {
    round_trip(frame, read_trajectory, kRemake);
  }
  round_trip(frame, read_batch, kRemake);
  round_trip(frame, read_parameters, kRemake);
  round_trip(frame, read_priorities, make_priorities);
  round_trip(frame, read_episode, make_episode);
  round_trip(frame, read_metrics, make_metrics);
  round_trip(frame, read_parameters_use, make_parameters_use);
  round_trip(frame, read_parameters_version, make_parameters_version);
  round_trip(frame, read_inference_request, make_inference_request);
  round_trip(frame, read_inference_answer, make_inference_answer);
  round_trip(frame, read_gradient_answer, make_gradient_answer);
  round_trip(frame, read_parameters_pull, make_parameters_pull);
  round_trip(frame, read_steps_request, make_steps_request);
  round_trip(frame, read_steps_grant, make_steps_grant);
  round_trip(frame, read_evaluation, make_evaluation);
  round_trip(frame, read_sample_request, make_sample_request);
  round_trip(frame, read_steps, kRemake);
}

void one_input(Bytes input) {
  Input choice(input);
  const bool repair = choice.choose(4) != 0;
  std::vector<std::byte> bytes(choice.rest().begin(), choice.rest().end());
  if (repair) {  // the table of segments: one, as long as the rest
    bytes.resize(std::max<std::size_t>(16, (bytes.size() + 7) / 8 * 8));
    store(bytes, 0, static_cast<std::uint64_t>(bytes.size() / 8 - 1) << 32);
  }
  FramePool pool;
  const auto frame = [&] { return pool.copy(bytes).value(); };
  const std::string_view name = type_name(frame());
  int readable = 0;
  for (std::uint16_t kind = 0; kind <= static_cast<std::uint16_t>(Kind::kSteps); ++kind) {
    readable += messages::testing::read_all(frame(), static_cast<Kind>(kind)).ok() ? 1 : 0;
  }
  TROUPE_CHECK(readable <= (name.empty() ? 0 : 1), "{} readers take a \"{}\"", readable, name);
  round_trips(frame());
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  FramePool pool;
  for (const Frame& frame : messages::testing::samples(pool)) all.push_back("\1" + to_string(frame.bytes()));
  all.push_back("\1" + to_string(messages::testing::sample_stacks(pool).bytes()));
  all.push_back("\1" + to_string(messages::testing::sample_gradient(pool, DType::kBF16).bytes()));
  return all;
}

const Registered registered({"messages", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
