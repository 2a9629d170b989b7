// The conformance suite between "processes" that are threads with a network in memory, and what is this back end's own:
// membership, late and early messages, ranks that die or stop.
#include <troupe/collectives/group_communicator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <troupe/collectives/detail/group_hosts.hpp>
#include <troupe/collectives/detail/group_message.hpp>
#include <troupe/tests/collectives/conformance.hpp>
#include <troupe/tests/collectives/memory_peers.hpp>

namespace troupe::collectives {
namespace {

/// A view in which rank r is member ids[r].
GroupView view_of(std::uint64_t epoch, int rank, const std::vector<std::uint32_t>& ids) {
  GroupView view{.epoch = epoch, .rank = rank, .size = static_cast<int>(ids.size())};
  for (const std::uint32_t id : ids) view.members.push_back({.id = id});
  return view;
}

/// One member's end and its communicator.
class MemberCommunicator final : public Communicator {
 public:
  /// Who says which member has which rank in an epoch: a chief in miniature, by everybody telling.
  struct Chief {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::uint64_t, std::map<int, std::uint32_t>> members;
  };

  MemberCommunicator(MemoryNetwork& network, Chief& chief, std::uint32_t id, GroupCommunicatorOptions options)
      : chief_(chief), id_(id), peers_(network.join(id)), inner_(make_group_communicator(*peers_, id, options)) {}

  const GroupView& view() const override { return inner_->view(); }
  Activity& activity() override { return inner_->activity(); }
  std::unique_ptr<Work> all_reduce(std::span<float> values, ReduceOp op, CallOptions options) override {
    return inner_->all_reduce(values, op, std::move(options));
  }
  std::unique_ptr<Work> all_gather(std::span<const float> in, std::span<float> out, CallOptions options) override {
    return inner_->all_gather(in, out, std::move(options));
  }
  std::unique_ptr<Work> reduce_scatter(std::span<const float> in, std::span<float> out, ReduceOp op,
                                       CallOptions options) override {
    return inner_->reduce_scatter(in, out, op, std::move(options));
  }
  std::unique_ptr<Work> broadcast(std::span<float> values, int root, CallOptions options) override {
    return inner_->broadcast(values, root, std::move(options));
  }
  std::unique_ptr<Work> barrier(CallOptions options) override { return inner_->barrier(std::move(options)); }
  void abort(std::string_view reason, std::optional<std::uint64_t> through) override { inner_->abort(reason, through); }

  std::optional<Error> failure() const override { return inner_->failure(); }

  Status reform(const GroupView& view, Duration timeout) override {
    if (!view.members.empty() || view.rank >= view.size || view.epoch <= inner_->view().epoch) {
      return inner_->reform(view, timeout);
    }
    std::vector<std::uint32_t> ids;
    {
      std::unique_lock lock(chief_.mutex);
      auto& members = chief_.members[view.epoch];
      members[view.rank] = id_;
      chief_.changed.notify_all();
      chief_.changed.wait_for(lock, 5s, [&] { return static_cast<int>(members.size()) == view.size; });
      for (const auto& [rank, id] : members) ids.push_back(id);
    }
    return inner_->reform(view_of(view.epoch, view.rank, ids), timeout);
  }

 private:
  Chief& chief_;
  const std::uint32_t id_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<Communicator> inner_;
};

/// kPerHost: how many ranks, one after the other, say that they share memory; 0: nobody does.
template <bool kDeterministic, int kPerHost>
struct MemoryWorld {
  MemoryNetwork network;
  MemberCommunicator::Chief chief;

  Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout) {
    std::vector<std::uint32_t> ids;
    for (int rank = 0; rank < view.size; ++rank) ids.push_back(static_cast<std::uint32_t>(rank));
    auto communicator = std::make_unique<MemberCommunicator>(network, chief, static_cast<std::uint32_t>(view.rank),
                                                             GroupCommunicatorOptions{kDeterministic});
    GroupView named = view_of(view.epoch, view.rank, ids);
    if constexpr (kPerHost > 0) {
      for (Member& member : named.members) member.host = "host " + std::to_string(member.id / kPerHost);
    }
    TROUPE_TRY(communicator->reform(named, timeout));
    return std::unique_ptr<Communicator>(std::move(communicator));
  }
};

using Links = MemoryWorld<true, 0>;
using Pairs = MemoryWorld<true, 2>;   // up to four hosts of two
using Uneven = MemoryWorld<true, 3>;  // 3 + 2, 3 + 3 + 2: reduced flat, to keep the tree
using OneHost = MemoryWorld<true, 8>;
INSTANTIATE_TYPED_TEST_SUITE_P(Links, CommunicatorConformance, Links);
INSTANTIATE_TYPED_TEST_SUITE_P(Pairs, CommunicatorConformance, Pairs);
INSTANTIATE_TYPED_TEST_SUITE_P(Uneven, CommunicatorConformance, Uneven);
INSTANTIATE_TYPED_TEST_SUITE_P(OneHost, CommunicatorConformance, OneHost);

/// Members 0..size-1, each with its end, not in a group yet.
class GroupTest : public testing::Test {
 protected:
  void SetUp() override { make(4); }
  void make(int size, GroupCommunicatorOptions options = {}) {
    members_.clear();
    ends_.clear();
    for (int i = 0; i < size; ++i) {
      ends_.push_back(network_.join(static_cast<std::uint32_t>(i)));
      members_.push_back(make_group_communicator(*ends_.back(), static_cast<std::uint32_t>(i), options));
    }
  }
  Communicator& member(std::size_t id) { return *members_[id]; }

  static std::vector<std::uint32_t> first(int size) {
    std::vector<std::uint32_t> ids;
    for (int i = 0; i < size; ++i) ids.push_back(static_cast<std::uint32_t>(i));
    return ids;
  }
  /// Runs body(rank, its member) on a thread for each of `ids`, after they have come to `epoch`.
  void run(std::uint64_t epoch, const std::vector<std::uint32_t>& ids,
           const std::function<void(int, Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ids.size(); ++rank) {
      threads.emplace_back([&, rank] {
        GroupView view = view_of(epoch, static_cast<int>(rank), ids);
        for (Member& one : view.members) one.name = "node " + std::to_string(one.id);
        const Status formed = member(ids[rank]).reform(view, 20s);
        ASSERT_TRUE(formed.ok()) << formed.error().message;
        body(static_cast<int>(rank), member(ids[rank]));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// Whole numbers, whose sums are exact in any order.
  static std::vector<float> numbers(int rank, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>((i * 7 + 3) % 101) * static_cast<float>(rank + 1);
    return values;
  }

  MemoryNetwork network_;
  std::vector<std::unique_ptr<Peers>> ends_;
  std::vector<std::unique_ptr<Communicator>> members_;
};

// Above every switch point: several blocks of several segments, and a rest.
constexpr std::size_t kLarge = 1'200'007;

TEST_F(GroupTest, LargeTensorsGiveTheSameSumsByEveryAlgorithm) {
  for (const int size : {2, 3, 9, 10}) {  // 9 and more: the ring
    make(size);
    run(static_cast<std::uint64_t>(size), first(size), [&](int rank, Communicator& communicator) {
      for (const std::size_t count : {std::size_t{20000}, kLarge}) {
        std::vector<float> mine = numbers(rank, count);
        const Status status = communicator.all_reduce(mine, ReduceOp::kSum, {.name = "x"})->wait();
        ASSERT_TRUE(status.ok()) << status.error().message;
        const float ranks = static_cast<float>(size * (size + 1) / 2);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(mine[i], static_cast<float>((i * 7 + 3) % 101) * ranks);
      }
    });
  }
}

TEST_F(GroupTest, TheRingWeighsItsMean) {
  make(9);
  std::vector<std::vector<float>> results(9);
  run(1, first(9), [&](int rank, Communicator& communicator) {
    std::vector<float>& mine = results[static_cast<std::size_t>(rank)];
    mine = numbers(rank, 100'000);
    const Status status = communicator.all_reduce(mine, ReduceOp::kMean, {.name = "x", .weight = 1.0 + rank})->wait();
    ASSERT_TRUE(status.ok()) << status.error().message;
  });
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    // sum of (r+1)^2 over sum of (r+1); nine roundings of a float32 at most.
    const float wanted = static_cast<float>((i * 7 + 3) % 101) * 285.0F / 45.0F;
    ASSERT_NEAR(results[0][i], wanted, 1e-5F * (1 + wanted));
    for (const auto& result : results) ASSERT_EQ(result[i], results[0][i]);
  }
}

TEST_F(GroupTest, DeterministicGroupsKeepTheTreeAtEverySize) {
  make(9, {.deterministic = true});
  std::vector<std::vector<float>> inputs;
  Rng rng(derive_seed(3, "values", 0));
  for (int rank = 0; rank < 9; ++rank) {
    inputs.emplace_back(100'000);
    for (float& value : inputs.back()) value = static_cast<float>(rng.uniform() - 0.5);
  }
  std::vector<const float*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<double> weights{1, 2, 0, 4, 5, 6, 7, 8, 9};
  std::vector<float> wanted(100'000);
  reduce(pointers, weights, ReduceOp::kMean, wanted.size(), wanted.data());
  run(1, first(9), [&](int rank, Communicator& communicator) {
    auto mine = inputs[static_cast<std::size_t>(rank)];
    // Who has no weight may hold anything.
    if (rank == 2) std::fill(mine.begin(), mine.end(), NAN);
    const double weight = weights[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(communicator.all_reduce(mine, ReduceOp::kMean, {.name = "x", .weight = weight})->wait().ok());
    ASSERT_EQ(mine, wanted);
  });
}

TEST_F(GroupTest, Bfloat16RoundsWhatTravelsOnceAndTheResultOnce) {
  for (const std::size_t count : {std::size_t{100}, std::size_t{30'001}}) {
    make(3);
    const std::vector<double> weights{1, 0, 3};
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < 3; ++rank) {
      inputs.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) inputs.back()[i] = std::sin(static_cast<float>(i + 1) * (1.5F + rank));
    }
    const std::vector<float> shares = mean_shares(weights);
    std::vector<std::vector<float>> rounded(3, std::vector<float>(count));
    std::vector<const float*> pointers;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      round_bf16(inputs[rank].data(), shares[rank], count, rounded[rank].data());
      pointers.push_back(rounded[rank].data());
    }
    std::vector<float> wanted(count);
    reduce_tree(pointers, {}, ReduceOp::kSum, count, std::array{wanted.data()});
    round_bf16(wanted.data(), 1, count, wanted.data());
    const std::size_t before = network_.bytes();
    run(count, first(3), [&](int rank, Communicator& communicator) {
      auto mine = inputs[static_cast<std::size_t>(rank)];
      const CallOptions options{.name = "x", .weight = weights[static_cast<std::size_t>(rank)], .wire = DType::kBF16};
      ASSERT_TRUE(communicator.all_reduce(mine, ReduceOp::kMean, options)->wait().ok());
      ASSERT_EQ(mine, wanted);
      std::vector<float> all(3 * count);
      ASSERT_TRUE(communicator.all_gather(inputs[static_cast<std::size_t>(rank)], all, options)->wait().ok());
      std::vector<float> row(count);
      for (std::size_t r = 0; r < 3; ++r) {
        round_bf16(inputs[r].data(), 1, count, row.data());
        ASSERT_TRUE(std::equal(row.begin(), row.end(), all.begin() + static_cast<std::ptrdiff_t>(r * count)));
      }
      mine = inputs[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(communicator.broadcast(mine, 2, options)->wait().ok());
      ASSERT_EQ(mine, row);
    });
    // Two bytes a value, where float32 would take 4: 2 + 2 slices of a third, 2 rows each, 2 copies of the root's.
    if (count > 100) {
      EXPECT_LT(network_.bytes() - before, count * 2 * (4 + 6 + 2) + 20'000);
    }
  }
}

TEST_F(GroupTest, ForgedAndLateMessagesOfOtherEpochsChangeNothing) {
  run(5, first(3), [&](int rank, Communicator& communicator) {
    std::vector<float> x = numbers(rank, 10);
    ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
  });
  // What a member of epoch 4 sent late: a failure, a hello, values.
  auto late = network_.join(77);
  using detail::MessageHead;
  using detail::MessageKind;
  for (const MessageKind kind :
       {MessageKind::kFailed, MessageKind::kHello, MessageKind::kValues, MessageKind::kHeads}) {
    const MessageHead head{.kind = kind, .epoch = 4};
    ASSERT_TRUE(late->send(0, std::as_bytes(std::span(&head, 1)), detail::write_failed({0, {Code::kIo, "late"}})).ok());
  }
  run(6, first(3), [&](int rank, Communicator& communicator) {
    std::vector<float> x = numbers(rank, 10);
    ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
    EXPECT_EQ(x[0], 18);  // 3 (1 + 2 + 3)
  });
}

TEST_F(GroupTest, BytesThatAreNoMessageBreakTheGroupByName) {
  run(1, first(2),
      [&](int, Communicator& communicator) { ASSERT_TRUE(communicator.barrier({.name = "start"})->wait().ok()); });
  auto stranger = network_.join(77);
  const std::vector<std::byte> bytes(100, std::byte{1});
  ASSERT_TRUE(stranger->send(0, bytes, {}).ok());
  const Status status = member(0).barrier({.name = "b", .timeout = 10s})->wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_NE(status.error().message.find("member 77"), std::string::npos);
}

TEST_F(GroupTest, WhoComesFirstToANewEpochWaitsForTheOthers) {
  // Member 0 is two epochs ahead: its hellos wait for the others.
  std::thread early([&] {
    const Status formed = member(0).reform(view_of(3, 0, first(2)), 20s);
    ASSERT_TRUE(formed.ok()) << formed.error().message;
    std::vector<float> x{1};
    ASSERT_TRUE(member(0).all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
    EXPECT_EQ(x[0], 3);
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(member(1).reform(view_of(2, 1, first(2)), 50ms).error().code, Code::kDeadlineExceeded);
  ASSERT_TRUE(member(1).reform(view_of(3, 1, first(2)), 20s).ok());
  std::vector<float> x{2};
  EXPECT_TRUE(member(1).all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
  early.join();
}

TEST_F(GroupTest, RanksThatDisagreeAboutTheGroupAllFail) {
  std::vector<Status> formed(3);
  const std::vector<std::vector<std::uint32_t>> views{{0, 1, 2}, {0, 1, 2}, {0, 3, 2}};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      formed[static_cast<std::size_t>(rank)] =
          member(static_cast<std::size_t>(rank)).reform(view_of(1, rank, views[static_cast<std::size_t>(rank)]), 10s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : formed) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kShapeMismatch) << status.error().message;
  }
  EXPECT_EQ(member(3).reform(view_of(1, 0, {0, 1}), 10s).error().code, Code::kInvalidArgument);
  EXPECT_EQ(member(3).reform(view_of(1, 0, {3, 3}), 10s).error().code, Code::kInvalidArgument);
}

TEST_F(GroupTest, ADeadRankIsLeftBehindAndTheOthersGoOn) {
  const auto began = std::chrono::steady_clock::now();
  run(1, first(4), [&](int rank, Communicator& communicator) {
    std::vector<float> x = numbers(rank, kLarge);
    ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
    if (rank == 2) {
      network_.silence(2);  // killed
      return;
    }
    std::thread chief;
    if (rank == 0) {
      chief = std::thread([&] {  // has noticed, and tells one of them
        std::this_thread::sleep_for(100ms);
        communicator.abort("member 2 died", 1);
      });
    }
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "y"})->wait();
    if (chief.joinable()) chief.join();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCancelled);
    EXPECT_EQ(status.error().message, "collective: rank 0 aborted: member 2 died");
  });
  run(2, {0, 1, 3}, [&](int rank, Communicator& communicator) {
    std::vector<float> x{static_cast<float>(rank)};
    ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
    EXPECT_EQ(x[0], 3);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);  // no timeout was waited for
}

TEST_F(GroupTest, AStoppedRankIsSaidNotToAnswer) {
  run(1, first(3), [&](int rank, Communicator& communicator) {
    ASSERT_TRUE(communicator.barrier({.name = "start"})->wait().ok());
    communicator.activity().begin_step(412);
    if (rank == 1) {
      network_.stop(1);
      return;
    }
    std::vector<float> x(3);
    const auto called = std::chrono::steady_clock::now();
    const Status status =
        communicator.all_reduce(x, ReduceOp::kSum, {.name = "D/block2/conv1", .timeout = 2500ms})->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
    const std::string& text = status.error().message;
    EXPECT_NE(
        text.find("step 412: rank 1 (node 1) has not entered all_reduce(D/block2/conv1); it does not answer for 2."),
        std::string::npos)
        << text;
    EXPECT_EQ(text.find("rank 0"), std::string::npos) << text;
    EXPECT_LT(std::chrono::steady_clock::now() - called, 5s);
  });
}

TEST_F(GroupTest, ADisagreementIsKnownWithinTwoSecondsThoughOneRankIsMissing) {
  run(1, first(4), [&](int rank, Communicator& communicator) {
    if (rank == 3) {
      std::this_thread::sleep_for(2s);
      return;
    }
    std::vector<float> x(8);
    const auto called = std::chrono::steady_clock::now();
    const Status status =
        communicator.all_reduce(std::span(x).first(rank == 1 ? 7 : 8), ReduceOp::kSum, {.name = "g"})->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kShapeMismatch);
    EXPECT_NE(status.error().message.find("rank 1 calls all_reduce \"g\" float32[7] sum, but rank 0 calls all_reduce"),
              std::string::npos)
        << status.error().message;
    EXPECT_LT(std::chrono::steady_clock::now() - called, 2s);
  });
}

TEST_F(GroupTest, AFullQueueIsTriedAgain) {
  network_.refuse(1, 3);  // of the hello
  run(1, first(2), [&](int rank, Communicator& communicator) {
    network_.refuse(0, 5);
    std::vector<float> x = numbers(rank, kLarge);
    ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait().ok());
    EXPECT_EQ(x[0], 9);
  });
}

TEST_F(GroupTest, ValuesAreLentOnlyUntilTheCallIsOver) {
  make(3);
  for (const std::uint32_t id : {0u, 1u, 2u}) network_.delay(id, 20ms);  // what is lent is read as late as can be
  run(1, first(3), [&](int rank, Communicator& communicator) {
    std::vector<float> sums = numbers(rank, kLarge);
    ASSERT_TRUE(communicator.all_reduce(sums, ReduceOp::kSum, {.name = "x"})->wait().ok());
    const std::vector<float> sums_before = sums;
    std::ranges::fill(sums, -1.0F);
    std::vector<float> shared = numbers(1, kLarge);
    if (rank != 1) std::ranges::fill(shared, 0.0F);
    ASSERT_TRUE(communicator.broadcast(shared, 1, {.name = "y"})->wait().ok());
    const std::vector<float> shared_before = shared;
    std::ranges::fill(shared, -1.0F);
    std::vector<float> row = numbers(rank, kLarge);
    std::vector<float> rows(3 * kLarge);
    ASSERT_TRUE(communicator.all_gather(row, rows, {.name = "z"})->wait().ok());
    std::ranges::fill(row, -1.0F);
    const std::vector<float> rows_before = rows;
    std::ranges::fill(rows, -1.0F);
    ASSERT_TRUE(communicator.barrier({.name = "b"})->wait().ok());
    EXPECT_EQ(shared_before, numbers(1, kLarge));
    for (std::size_t i = 0; i < kLarge; ++i) ASSERT_EQ(sums_before[i], static_cast<float>((i * 7 + 3) % 101) * 6);
    for (int from = 0; from < 3; ++from) {
      const auto begin = rows_before.begin() + from * static_cast<std::ptrdiff_t>(kLarge);
      const std::vector<float> theirs = numbers(from, kLarge);
      EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), begin)) << "row " << from;
    }
  });
}

/// Keeps what is lent to it, for ever.
class KeepingPeers final : public Peers {
 public:
  explicit KeepingPeers(std::unique_ptr<Peers> inner) : inner_(std::move(inner)) {}
  Status send(std::uint32_t member, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return inner_->send(member, head, body);
  }
  Status lend(std::uint32_t, std::span<const std::byte>, std::shared_ptr<const LentBytes> body) override {
    kept.push_back(std::move(body));
    return {};
  }
  void deliver_to(std::function<void(PeerMessage)> receiver) override { inner_->deliver_to(std::move(receiver)); }

  std::vector<std::shared_ptr<const LentBytes>> kept;

 private:
  const std::unique_ptr<Peers> inner_;
};

TEST_F(GroupTest, ACallThatFailsTakesItsValuesBack) {
  make(2);
  members_[0].reset();
  auto keeping = std::make_unique<KeepingPeers>(std::move(ends_[0]));
  const KeepingPeers& peers = *keeping;
  ends_[0] = std::move(keeping);
  members_[0] = make_group_communicator(*ends_[0], 0, {});
  run(1, first(2), [&](int rank, Communicator& communicator) {
    std::vector<float> mine = numbers(rank, kLarge);
    EXPECT_FALSE(communicator.all_reduce(mine, ReduceOp::kSum, {.name = "x", .timeout = 500ms})->wait().ok());
    std::ranges::fill(mine, -1.0F);
  });
  ASSERT_GT(peers.kept.size(), 0u);
  const std::vector<float> inputs = numbers(0, kLarge);
  const std::vector<float> sums = numbers(2, kLarge);  // 3 times rank 0's, as the sum of both ranks'
  for (const auto& lent : peers.kept) {
    std::vector<float> values(lent->size() / sizeof(float));
    lent->with([&](std::span<const std::byte> bytes) { std::memcpy(values.data(), bytes.data(), bytes.size()); });
    const auto has = [&](const std::vector<float>& all) {
      return std::search(all.begin(), all.end(), values.begin(), values.end()) != all.end();
    };
    EXPECT_TRUE(has(inputs) || has(sums)) << "they have been freed or overwritten";
  }
}

TEST_F(GroupTest, WhoLeavesAfterACallDoesNotBreakItForTheOthers) {
  make(3);
  network_.delay(2, 20ms);  // rank 2 is the last to finish
  run(1, first(3), [&](int rank, Communicator& communicator) {
    std::vector<float> x = numbers(rank, kLarge);
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait();
    EXPECT_TRUE(status.ok()) << status.error().message;
    if (rank == 0) members_[0].reset();
    if (rank == 2) {
      std::this_thread::sleep_for(100ms);
      const Status next = communicator.barrier({.name = "b", .timeout = 10s})->wait();
      ASSERT_FALSE(next.ok());
      EXPECT_EQ(next.error().message, "collective: rank 0 has left epoch 1");
    }
  });
}

TEST(GroupHosts, SaysWhoSpeaksForWhom) {
  using detail::group_hosts;
  const auto hosts = [](int rank, const std::vector<std::string>& names, std::vector<bool> shares = {}) {
    GroupView view{.rank = rank, .size = static_cast<int>(names.size())};
    for (const std::string& name : names) view.members.push_back({.host = name});
    if (shares.empty()) shares.assign(names.size(), true);
    return group_hosts(view, shares);
  };
  const auto pairs = hosts(3, {"a", "a", "b", "b", "c"});
  EXPECT_EQ(pairs.speakers, (std::vector{0, 2, 4}));
  EXPECT_EQ(pairs.own, (std::vector{2, 3}));
  EXPECT_TRUE(pairs.keeps_tree);
  EXPECT_FALSE(hosts(0, {"a", "a", "a", "b"}).keeps_tree);  // (0+1)+2 is no subtree of four
  EXPECT_FALSE(hosts(0, {"a", "b", "a", "b"}).keeps_tree);  // blocks that are not of neighbours
  EXPECT_FALSE(hosts(0, {"a", "b", "b", "c"}).keeps_tree);  // not aligned
  EXPECT_TRUE(hosts(0, {"a", "a", "a"}).all_shared(3));
  EXPECT_EQ(hosts(1, {"", "", ""}).speakers, (std::vector{0, 1, 2}));
  const auto apart = hosts(0, {"a", "a", "b", "b"}, {true, false, true, true});
  EXPECT_EQ(apart.speakers, (std::vector{0, 1, 2}));
  EXPECT_FALSE(apart.is_shared());
}

TEST_F(GroupTest, HostsReduceFirstAndSendLess) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a", "a", "b", "b"}, std::vector<std::string>{"a", "a", "a", "b"}}) {
    make(4);
    std::size_t bytes = 0;
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> results(4);
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&, rank] {
        GroupView view = view_of(1, rank, first(4));
        for (std::size_t r = 0; r < 4; ++r) view.members[r].host = names[r];
        Communicator& mine = member(static_cast<std::size_t>(rank));
        ASSERT_TRUE(mine.reform(view, 20s).ok());
        ASSERT_TRUE(mine.barrier({.name = "start"})->wait().ok());
        if (rank == 0) bytes = network_.bytes();
        ASSERT_TRUE(mine.barrier({.name = "counted"})->wait().ok());
        std::vector<float> x = numbers(rank, kLarge);
        for (int i = 0; i < 2; ++i) {
          x = numbers(rank, kLarge);
          const CallOptions options{.name = "x", .weight = rank + 1.0};
          const Status status = mine.all_reduce(x, i == 0 ? ReduceOp::kSum : ReduceOp::kMean, options)->wait();
          ASSERT_TRUE(status.ok()) << status.error().message;
          // 10 (1 + 2 + 3 + 4), or 10 (1 + 4 + 9 + 16) / 10 with a few roundings of float32.
          ASSERT_NEAR(x[1], i == 0 ? 100 : 30, 1e-5);
        }
        results[static_cast<std::size_t>(rank)] = x;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
    // Two hosts: 2 (H-1)/H N bytes each, where four ranks would send 2 * 3/4 N each; and the heads.
    EXPECT_LT(network_.bytes() - bytes, 2 * (2 * kLarge * sizeof(float)) + 50'000);
  }
}

TEST_F(GroupTest, GivesNoCallWithoutAGroup) {
  std::vector<float> x(3);
  EXPECT_EQ(member(0).view().size, 0);
  const Status status = member(0).all_reduce(x, ReduceOp::kSum, {.name = "x"})->wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kCancelled);
  member(0).abort("never to be", 7);
  EXPECT_EQ(member(0).reform(view_of(7, 0, {0}), 1s).error().code, Code::kCancelled);
  EXPECT_TRUE(member(0).reform(view_of(8, 0, {0}), 1s).ok());
  EXPECT_TRUE(member(0).all_reduce(x, ReduceOp::kMean, {.name = "x", .wire = DType::kBF16})->wait().ok());
}

}  // namespace
}  // namespace troupe::collectives
