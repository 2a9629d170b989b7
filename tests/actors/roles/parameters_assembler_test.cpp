// Versions from pieces. The stores are real, the channels between learner, stores and reader are played by the test,
// so that it decides when a frame arrives and when a reader takes it: at random, or as badly as possible.
#include <troupe/actors/roles/parameters_assembler.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include <troupe/actors/roles/parameter_store.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;
using testing::FakeInlet;

constexpr std::int64_t kElements = 12;

/// Piece `index` of `count`: every count-th element. All elements hold the version.
Frame piece(messages::FramePool& pool, std::int64_t version, std::uint64_t publication, std::size_t index,
            std::size_t count) {
  messages::ParametersPiece part{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(count), kElements, {}};
  for (auto i = static_cast<std::int64_t>(index); i < kElements; i += static_cast<std::int64_t>(count)) {
    part.ranges.push_back({i, 1});
  }
  auto builder = messages::ParametersBuilder::make(pool, DType::kF32, part).value();
  auto* values = reinterpret_cast<float*>(builder.data().data());
  std::fill_n(values, part.ranges.size(), static_cast<float>(version));
  return std::move(builder).finish({version, 7, 0, DType::kF32, publication});
}

/// A learner that publishes, `shards` stores and one reader. Every arrow of the picture is a call of the test.
class Cluster {
 public:
  explicit Cluster(std::size_t shards) {
    for (std::size_t s = 0; s < shards; ++s) {
      stores_.push_back(std::make_unique<Store>(static_cast<std::int64_t>(s)));
      stores_.back()->context.out("parameters").room = 1;
      stores_.back()->context.out("versions").room = 1'000'000;  // nobody here looks at them
    }
  }
  std::size_t shards() const { return stores_.size(); }

  /// As a trainer does: only when every store has taken the publication before. Whether it did.
  bool publish() {
    ++version_;
    for (const auto& store : stores_) {
      if (!store->context.in("updates").empty()) return false;
    }
    for (std::size_t s = 0; s < shards(); ++s) {
      stores_[s]->context.in("updates").frames.push_back(piece(pool_, version_, publications_, s, shards()));
    }
    ++publications_;
    return true;
  }
  void step_store(std::size_t s) { ASSERT_EQ(stores_[s]->role.step(stores_[s]->context).value(), Progress::kIdle); }
  /// What the store has sent arrives at the reader.
  bool deliver(std::size_t s) {
    auto& sent = stores_[s]->context.out("parameters").sent;
    if (sent.empty()) return false;
    EXPECT_EQ(sent.size(), 1u);
    inlet_.frames.push_back({sent[0], s});
    sent.clear();
    return true;
  }
  /// The reader takes what has arrived from one store: its credit goes back.
  void take(std::size_t s) {
    FakeInlet arrived;
    while (inlet_.peek(s) != nullptr) {
      arrived.frames.push_back({inlet_.take(s), s});
      ++stores_[s]->context.out("parameters").room;
    }
    const auto assembled = assembler_.take(arrived).value();
    if (!assembled) return;
    ASSERT_EQ(assembled->values.size(), static_cast<std::size_t>(kElements));
    EXPECT_THAT(assembled->values, ::testing::Each(static_cast<float>(assembled->version))) << "a mix of versions";
    EXPECT_GT(assembled->version, read_);
    read_ = assembled->version;
    longest_gap_ = std::max(longest_gap_, publications_ - read_at_);
    read_at_ = publications_;
  }

  std::int64_t version() const { return version_; }  ///< newest that the learner has
  std::int64_t read() const { return read_; }        ///< newest that the reader has
  std::uint64_t publications() const { return publications_; }
  /// Most publications between two versions that the reader completed, the one since the last included.
  std::uint64_t longest_gap() const { return std::max(longest_gap_, publications_ - read_at_); }

 private:
  struct Store {
    explicit Store(std::int64_t index) : role(index) {}
    ParameterStore role;
    FakeContext context;
  };
  messages::FramePool pool_;
  std::vector<std::unique_ptr<Store>> stores_;
  FakeInlet inlet_;
  ParametersAssembler assembler_;
  std::int64_t version_ = -1;
  std::int64_t read_ = -1;
  std::uint64_t publications_ = 0, read_at_ = 0, longest_gap_ = 0;
};

TEST(ParametersAssembler, AWholeVersionPassesThroughWithoutACopy) {
  messages::FramePool pool;
  FakeInlet inlet;
  const Frame frame = piece(pool, 3, 0, 0, 1);
  inlet.frames.push_back(frame);
  ParametersAssembler assembler;
  const auto assembled = assembler.take(inlet).value();
  ASSERT_TRUE(assembled.has_value());
  EXPECT_EQ(assembled->version, 3);
  EXPECT_EQ(assembled->layout_hash, 7u);
  EXPECT_EQ(static_cast<const void*>(assembled->values.data()), messages::read_parameters(frame)->data().data());
  EXPECT_FALSE(assembler.take(inlet).value().has_value());
}

TEST(ParametersAssembler, AnOlderVersionIsNotReturned) {
  messages::FramePool pool;
  FakeInlet inlet;
  ParametersAssembler assembler;
  inlet.frames.push_back(piece(pool, 3, 1, 0, 1));
  ASSERT_TRUE(assembler.take(inlet).value().has_value());
  inlet.frames.push_back(piece(pool, 2, 0, 0, 1));
  EXPECT_FALSE(assembler.take(inlet).value().has_value());
}

TEST(ParametersAssembler, PiecesOfDifferentVersionsAreNeverMixed) {
  messages::FramePool pool;
  FakeInlet inlet;
  ParametersAssembler assembler;
  inlet.frames.push_back(piece(pool, 1, 1, 0, 2));
  inlet.frames.push_back(piece(pool, 2, 2, 1, 2));
  EXPECT_FALSE(assembler.take(inlet).value().has_value());
  inlet.frames.push_back(piece(pool, 2, 2, 0, 2));
  const auto assembled = assembler.take(inlet).value();
  ASSERT_TRUE(assembled.has_value());
  EXPECT_EQ(assembled->version, 2);
  EXPECT_THAT(assembled->values, ::testing::Each(2.0F));
}

TEST(ParametersAssembler, AVersionThatARestartedLearnerPublishesAgainIsMadeOfItsPiecesAlone) {
  messages::FramePool pool;
  FakeInlet inlet;
  ParametersAssembler assembler;
  inlet.frames.push_back(piece(pool, 5, 17, 0, 2));
  inlet.frames.push_back(piece(pool, 5, 0, 1, 2));
  EXPECT_FALSE(assembler.take(inlet).value().has_value());
  inlet.frames.push_back(piece(pool, 5, 0, 0, 2));
  EXPECT_EQ(assembler.take(inlet).value()->version, 5);
}

TEST(ParametersAssembler, PiecesThatDoNotBelongTogetherAreRefused) {
  messages::FramePool pool;
  const auto error_of = [&](std::vector<Frame> frames) {
    FakeInlet inlet;
    for (Frame& frame : frames) inlet.frames.push_back(std::move(frame));
    ParametersAssembler assembler;
    return assembler.take(inlet).error().message;
  };
  EXPECT_EQ(error_of({piece(pool, 1, 0, 0, 2), piece(pool, 1, 0, 1, 3)}),
            "parameters of version 1: got a piece of 3, expected one of 2");
  const auto custom = [&](std::uint32_t index, std::int64_t elements, std::vector<messages::ParametersRange> ranges,
                          std::uint64_t layout) {
    auto builder =
        messages::ParametersBuilder::make(pool, DType::kF32, messages::ParametersPiece{index, 2, elements, ranges});
    std::fill(builder->data().begin(), builder->data().end(), std::byte{0});
    return std::move(*builder).finish({1, layout, 0, DType::kF32, 0});
  };
  EXPECT_EQ(error_of({custom(0, 8, {{0, 4}}, 7), custom(1, 8, {{3, 4}}, 7)}),
            "parameters of version 1: pieces cover 4 elements without gap or overlap, expected 8");
  EXPECT_EQ(error_of({custom(0, 8, {{0, 4}}, 7), custom(1, 8, {{5, 3}}, 7)}),
            "parameters of version 1: pieces cover 4 elements without gap or overlap, expected 8");
  EXPECT_EQ(error_of({custom(0, 8, {{0, 4}}, 7), custom(1, 8, {{4, 4}}, 8)}),
            "parameters of version 1: pieces are of different buffers");
  auto half = messages::ParametersBuilder::make(pool, DType::kBF16, 4).value();
  EXPECT_EQ(error_of({std::move(half).finish({1, 7, 0, DType::kBF16, 0})}),
            "parameters of version 1: got bfloat16, expected float32");
}

TEST(ParametersAssembler, WithoutHurryEveryVersionArrives) {
  Cluster cluster(3);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(cluster.publish());
    for (std::size_t s = 0; s < 3; ++s) {
      cluster.step_store(s);
      cluster.deliver(s);
      cluster.take(s);
    }
    EXPECT_EQ(cluster.read(), cluster.version());
  }
}

TEST(ParametersAssembler, ShardsThatAlwaysMissEachOtherStillCompleteAVersion) {
  // The worst timing for newest-wins: the reader takes from shard 0 only before odd publications and from shard 1 only
  // before even ones, so the newest versions of the two never meet.
  for (const std::uint64_t window : {1, 2, 5, 8, 13}) {
    Cluster cluster(2);
    for (std::uint64_t round = 0; round < 400; ++round) {
      const std::size_t turn = round % 2;
      cluster.take(turn);
      cluster.step_store(turn);
      for (std::uint64_t i = 0; i < window; ++i) {
        ASSERT_TRUE(cluster.publish());
        cluster.step_store(0);
        cluster.step_store(1);
        cluster.deliver(0);
        cluster.deliver(1);
      }
    }
    // Each shard sends once in two rounds: 2 * window publications. Twice the bound's premise rounds up to 2^r <= 4 W.
    EXPECT_LE(cluster.longest_gap(), 4 * 2 * window) << window;
    EXPECT_GT(cluster.read(), 0);
  }
}

TEST(ParametersAssembler, AtAnyInterleavingVersionsAreWholeAscendingAndKeepComing) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    Cluster cluster(2 + rng.below(3));
    // Some runs have a shard that is slow, some a learner that is fast.
    std::vector<std::uint64_t> weights;
    for (std::size_t s = 0; s < cluster.shards(); ++s) weights.push_back(1 + rng.below(8));
    const std::uint64_t learner_weight = 1 + rng.below(12);
    std::vector<std::uint64_t> last_taken(cluster.shards(), 0);
    std::uint64_t widest = 1;  // publications between two takes from one shard, which bounds those between two sends
    for (int i = 0; i < 4000; ++i) {
      std::uint64_t total = learner_weight;
      for (std::uint64_t weight : weights) total += weight;
      std::uint64_t choice = rng.below(total);
      if (choice < learner_weight) {
        cluster.publish();
        continue;
      }
      choice -= learner_weight;
      std::size_t s = 0;
      while (choice >= weights[s]) choice -= weights[s++];
      switch (rng.below(3)) {
        case 0:
          cluster.step_store(s);
          break;
        case 1:
          cluster.deliver(s);
          break;
        default:
          cluster.take(s);
          // Frames in flight may be one send behind, so a window is at most two takes wide.
          widest = std::max(widest, 2 * (cluster.publications() - last_taken[s]) + 1);
          last_taken[s] = cluster.publications();
      }
    }
    EXPECT_GT(cluster.read(), 0) << "seed " << seed;
    EXPECT_LE(cluster.longest_gap(), 4 * widest) << "seed " << seed;
    // The learner pauses: everyone gets the newest.
    cluster.publish();
    for (int i = 0; i < 5; ++i) {
      for (std::size_t s = 0; s < cluster.shards(); ++s) {
        cluster.step_store(s);
        cluster.deliver(s);
        cluster.take(s);
      }
      if (i == 0) cluster.publish();  // the one above may have found a store busy
    }
    EXPECT_EQ(cluster.read(), cluster.version()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::actors
