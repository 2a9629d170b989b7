#pragma once
// What every back end of Communicator must do. A back end's test instantiates this suite with a type that has
//   Result<std::unique_ptr<Communicator>> join(const GroupView& view, Duration timeout);
// callable from one thread for each rank at once; one object of it is one world in which ranks can meet.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/reduce.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::collectives {

using namespace std::chrono_literals;

constexpr int kRankCounts[] = {1, 2, 3, 5, 8};
constexpr std::size_t kSizes[] = {0, 1, 7, 1000, 20001};  // the last: more than one chunk, and an odd rest

/// What a back end documents as its own, where the others are alike: its test says so by a specialisation.
template <typename World>
struct Documented {
  /// Reductions go in the tree of reduce.hpp, so their bits are those of a plain computation. Else sums are near it,
  /// and the same bits on all ranks.
  static constexpr bool kTree = true;
  /// Values may travel as bfloat16. Else all ranks are told that they may not.
  static constexpr bool kBf16 = true;
};

template <typename World>
class CommunicatorConformance : public testing::Test {
 protected:
  World world_;
  std::uint64_t epoch_ = 0;

  /// Runs body(rank, communicator) on one thread for each rank of a new group.
  void run(int ranks, const std::function<void(int, Communicator&)>& body) {
    ++epoch_;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = world_.join({.epoch = epoch_, .rank = rank, .size = ranks}, 20s);
        ASSERT_TRUE(communicator.ok()) << communicator.error().message;
        body(rank, **communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// What `rank` contributes; any thread can compute any rank's.
  static std::vector<float> values(int rank, std::size_t size) {
    Rng rng(derive_seed(1, "values", static_cast<std::uint64_t>(rank)));
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(rng.uniform() - 0.4);
    return values;
  }

  static double weight(int rank) { return rank == 1 ? 0.0 : 1.0 + rank; }

  /// The reduction over all ranks' values, computed plainly.
  static std::vector<float> expected(int ranks, std::size_t size, ReduceOp op) {
    std::vector<std::vector<float>> all;
    std::vector<const float*> pointers;
    std::vector<double> weights;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(values(rank, size));
    for (int rank = 0; rank < ranks; ++rank) {
      pointers.push_back(all[static_cast<std::size_t>(rank)].data());
      weights.push_back(weight(rank));
    }
    std::vector<float> out(size);
    reduce(pointers, weights, op, size, out.data());
    return out;
  }

  /// Whether a rank's result is what the back end promises of this reduction.
  static void check_reduced(const std::vector<float>& mine, const std::vector<float>& wanted, ReduceOp op) {
    if (Documented<World>::kTree || op == ReduceOp::kMin || op == ReduceOp::kMax) {
      ASSERT_EQ(mine, wanted);
      return;
    }
    ASSERT_EQ(mine.size(), wanted.size());
    // Sums of at most 8 values below 1, in any order: 7 roundings by at most 2^-24 of less than 8.
    for (std::size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], wanted[i], 4e-6) << "element " << i;
  }

  /// Whether all ranks have the bits that this one has.
  static void check_same_bits(Communicator& communicator, const std::vector<float>& mine) {
    const auto ranks = static_cast<std::size_t>(communicator.view().size);
    std::vector<float> all(ranks * mine.size());
    ASSERT_TRUE(communicator.all_gather(mine, all, {.name = "bits"})->wait().ok());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], mine[i % mine.size()]) << "element " << i;
  }
};

TYPED_TEST_SUITE_P(CommunicatorConformance);

TYPED_TEST_P(CommunicatorConformance, AllReduceGivesEveryRankTheReduction) {
  for (int ranks : kRankCounts) {
    this->run(ranks, [&](int rank, Communicator& communicator) {
      EXPECT_FALSE(communicator.failure());
      for (std::size_t size : kSizes) {
        for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
          std::vector<float> mine = this->values(rank, size);
          const Status status = communicator.all_reduce(mine, op, {.name = "x", .weight = this->weight(rank)})->wait();
          ASSERT_TRUE(status.ok()) << status.error().message;
          SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(size) + " " + std::string(to_string(op)));
          ASSERT_NO_FATAL_FAILURE(this->check_reduced(mine, this->expected(ranks, size, op), op));
          if constexpr (!Documented<TypeParam>::kTree) {
            ASSERT_NO_FATAL_FAILURE(this->check_same_bits(communicator, mine));
          }
        }
      }
    });
  }
}

TYPED_TEST_P(CommunicatorConformance, AllGatherGivesEveryRankAllRows) {
  for (int ranks : kRankCounts) {
    this->run(ranks, [&](int rank, Communicator& communicator) {
      for (std::size_t size : kSizes) {
        std::vector<float> all(size * static_cast<std::size_t>(ranks));
        ASSERT_TRUE(communicator.all_gather(this->values(rank, size), all, {.name = "x"})->wait().ok());
        std::vector<float> wanted;
        for (int r = 0; r < ranks; ++r) {
          const auto row = this->values(r, size);
          wanted.insert(wanted.end(), row.begin(), row.end());
        }
        ASSERT_EQ(all, wanted);
      }
    });
  }
}

TYPED_TEST_P(CommunicatorConformance, GatherIntegersKeepsEveryBit) {
  // All bits of a number, and those that as floats are no numbers, of either kind.
  constexpr std::uint64_t kBits[] = {0,          1, ~std::uint64_t{0}, std::uint64_t{1} << 63, 0x7fa0'0001'7fc0'0001,
                                     0xffa0'0001};
  for (int ranks : kRankCounts) {
    this->run(ranks, [&](int rank, Communicator& communicator) {
      const auto row = [&](int of, std::size_t size) {
        std::vector<std::int64_t> numbers(size);
        for (std::size_t i = 0; i < size; ++i) {
          const std::uint64_t bits = kBits[(i + static_cast<std::size_t>(of)) % std::size(kBits)];
          numbers[i] = std::bit_cast<std::int64_t>(bits ^ i << 20);
        }
        return numbers;
      };
      for (std::size_t size : kSizes) {
        const auto all = communicator.gather_integers(row(rank, size), {.name = "x"});
        ASSERT_TRUE(all.ok()) << all.error().message;
        std::vector<std::int64_t> wanted;
        for (int r = 0; r < ranks; ++r) {
          const auto numbers = row(r, size);
          wanted.insert(wanted.end(), numbers.begin(), numbers.end());
        }
        ASSERT_EQ(*all, wanted);
      }
    });
  }
}

TYPED_TEST_P(CommunicatorConformance, IntegersAreNotTakenForAsManyFloats) {
  this->run(2, [&](int rank, Communicator& communicator) {
    std::vector<float> in(6), out(12);
    const std::vector<std::int64_t> numbers(3);
    const CallOptions options{.name = "x", .timeout = 20s};
    const Status status = rank == 1 ? Status(communicator.gather_integers(numbers, options).error())
                                    : communicator.host().all_gather(in, out, options)->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kShapeMismatch);
    for (const std::string said :
         {"rank 1 calls all_gather \"x\" int64[3]", "rank 0 calls all_gather \"x\" float32[6]"}) {
      EXPECT_NE(status.error().message.find(said), std::string::npos) << status.error().message;
    }
  });
}

TYPED_TEST_P(CommunicatorConformance, ReduceScatterGivesEachRankItsRow) {
  for (int ranks : kRankCounts) {
    this->run(ranks, [&](int rank, Communicator& communicator) {
      for (std::size_t size : kSizes) {
        const std::size_t all = size * static_cast<std::size_t>(ranks);
        std::vector<float> mine(size);
        for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
          const auto in = this->values(rank, all);
          ASSERT_TRUE(
              communicator.reduce_scatter(in, mine, op, {.name = "x", .weight = this->weight(rank)})->wait().ok());
          const auto wanted = this->expected(ranks, all, op);
          const auto row = wanted.begin() + static_cast<std::ptrdiff_t>(size) * rank;
          const std::vector<float> mine_wanted(row, row + static_cast<std::ptrdiff_t>(size));
          ASSERT_NO_FATAL_FAILURE(this->check_reduced(mine, mine_wanted, op));
        }
      }
    });
  }
}

TYPED_TEST_P(CommunicatorConformance, BroadcastGivesEveryRankTheRootsValues) {
  for (int ranks : kRankCounts) {
    this->run(ranks, [&](int rank, Communicator& communicator) {
      for (std::size_t size : kSizes) {
        for (int root = 0; root < ranks; ++root) {
          std::vector<float> mine = this->values(rank, size);
          ASSERT_TRUE(communicator.broadcast(mine, root, {.name = "x"})->wait().ok());
          ASSERT_EQ(mine, this->values(root, size));
        }
      }
    });
  }
}

TYPED_TEST_P(CommunicatorConformance, BarrierHoldsUntilTheLastRankComes) {
  std::atomic<int> came = 0;
  this->run(3, [&](int rank, Communicator& communicator) {
    for (int round = 1; round <= 20; ++round) {
      if (rank == round % 3) std::this_thread::sleep_for(1ms);
      came.fetch_add(1);
      ASSERT_TRUE(communicator.barrier({.name = "b"})->wait().ok());
      ASSERT_GE(came.load(), 3 * round);
    }
  });
}

TYPED_TEST_P(CommunicatorConformance, WorksMayOverlapAndBeAwaitedInAnyOrder) {
  this->run(3, [&](int rank, Communicator& communicator) {
    constexpr int kWorks = Communicator::kMaxPending;
    std::vector<std::vector<float>> buffers;
    for (int i = 0; i < kWorks; ++i) buffers.push_back(this->values(rank, 100 + static_cast<std::size_t>(i)));
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < kWorks; ++i) {
      works.push_back(
          communicator.all_reduce(buffers[static_cast<std::size_t>(i)], ReduceOp::kSum, {.name = std::to_string(i)}));
    }
    std::vector<float> more(1);
    const Status one_more = communicator.all_reduce(more, ReduceOp::kSum, {.name = "more"})->wait();
    ASSERT_EQ(one_more.error().code, Code::kUnavailable);
    for (int i = 0; i < kWorks; ++i) {
      const int index = rank == 0 ? i : kWorks - 1 - i;
      Work& work = *works[static_cast<std::size_t>(index)];
      if (rank == 2) {
        while (!work.done()) std::this_thread::yield();
      }
      ASSERT_TRUE(work.wait().ok());
      ASSERT_TRUE(work.done());
      const auto wanted = this->expected(3, 100 + static_cast<std::size_t>(index), ReduceOp::kSum);
      ASSERT_NO_FATAL_FAILURE(this->check_reduced(buffers[static_cast<std::size_t>(index)], wanted, ReduceOp::kSum));
    }
    ASSERT_TRUE(communicator.all_reduce(more, ReduceOp::kSum, {.name = "more"})->wait().ok());
  });
}

TYPED_TEST_P(CommunicatorConformance, MismatchGivesEveryRankTheSameError) {
  using Make = std::function<std::unique_ptr<Work>(Communicator&, std::vector<float>&)>;
  const Make plain = [](Communicator& c, std::vector<float>& x) {
    return c.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 20s});
  };
  const std::vector<std::pair<Make, std::string>> others{
      {[](Communicator& c, std::vector<float>& x) {
         return c.all_reduce(std::span(x).first(5), ReduceOp::kSum, {.name = "grad", .timeout = 20s});
       },
       "rank 1 calls all_reduce \"grad\" float32[5] sum"},
      {[](Communicator& c, std::vector<float>& x) {
         return c.all_reduce(x, ReduceOp::kSum, {.name = "other", .timeout = 20s});
       },
       "rank 1 calls all_reduce \"other\" float32[9] sum"},
      {[](Communicator& c, std::vector<float>& x) {
         return c.all_reduce(x, ReduceOp::kMax, {.name = "grad", .timeout = 20s});
       },
       "rank 1 calls all_reduce \"grad\" float32[9] max"},
      {[](Communicator& c, std::vector<float>& x) {
         return c.all_reduce(x, ReduceOp::kSum, {.name = "grad", .shape = {3, 3}, .timeout = 20s});
       },
       "rank 1 calls all_reduce \"grad\" float32[3, 3] sum"},
      {[](Communicator& c, std::vector<float>& x) {
         return c.all_reduce(x, ReduceOp::kSum, {.name = "grad", .wire = DType::kBF16, .timeout = 20s});
       },
       "rank 1 calls all_reduce \"grad\" float32[9] sum as bfloat16"},
      {[](Communicator& c, std::vector<float>& x) { return c.broadcast(x, 0, {.name = "grad", .timeout = 20s}); },
       "rank 1 calls broadcast \"grad\" float32[9]"},
      {[](Communicator& c, std::vector<float>&) { return c.barrier({.name = "grad", .timeout = 20s}); },
       "rank 1 calls barrier \"grad\""}};
  for (const auto& [other, wanted] : others) {
    std::vector<Error> errors(3);
    this->run(3, [&, &other = other](int rank, Communicator& communicator) {
      std::vector<float> x(9, 1.0f);
      const Status status = (rank == 1 ? other : plain)(communicator, x)->wait();
      ASSERT_FALSE(status.ok());
      errors[static_cast<std::size_t>(rank)] = status.error();
      // The group is broken: the next call says why.
      const Status next = plain(communicator, x)->wait();
      ASSERT_FALSE(next.ok());
      EXPECT_EQ(next.error().message, status.error().message);
      ASSERT_TRUE(communicator.failure());
      EXPECT_EQ(communicator.failure()->message, status.error().message);
    });
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, Code::kShapeMismatch);
      EXPECT_NE(error.message.find(wanted), std::string::npos) << error.message;
      EXPECT_NE(error.message.find("all_reduce \"grad\" float32[9] sum"), std::string::npos) << error.message;
      EXPECT_EQ(error.message, errors[0].message);
    }
  }
}

TYPED_TEST_P(CommunicatorConformance, MismatchIsSaidBeforeTheLastRankComes) {
  this->run(3, [&](int rank, Communicator& communicator) {
    ASSERT_TRUE(communicator.barrier({.name = "start"})->wait().ok());
    const auto start = std::chrono::steady_clock::now();
    if (rank == 2) std::this_thread::sleep_for(3s);
    std::vector<float> x(9, 1.0f);
    const Status status = communicator.broadcast(x, rank == 1 ? 1 : 0, {.name = "w", .timeout = 20s})->wait();
    if (rank < 2) {
      EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);  // milliseconds on a quiet machine
    }
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("broadcast \"w\" float32[9] from rank 1"), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find("broadcast \"w\" float32[9] from rank 0"), std::string::npos)
        << status.error().message;
  });
}

TYPED_TEST_P(CommunicatorConformance, OrderOfCallsMustBeTheSame) {
  this->run(2, [&](int rank, Communicator& communicator) {
    std::vector<float> a(5, 1.0f);
    std::vector<float> b(5, 1.0f);
    auto first = communicator.all_reduce(a, ReduceOp::kSum, {.name = rank == 0 ? "a" : "b", .timeout = 20s});
    auto second = communicator.all_reduce(b, ReduceOp::kSum, {.name = rank == 0 ? "b" : "a", .timeout = 20s});
    const Status status = first->wait();
    EXPECT_EQ(status.error().code, Code::kShapeMismatch);
    EXPECT_EQ(second->wait().error().message, status.error().message);
    EXPECT_EQ(a, std::vector<float>(5, 1.0f)) << "no value is touched";
  });
}

TYPED_TEST_P(CommunicatorConformance, LargeValuesGoInPieces) {
  constexpr std::size_t kSize = 300'001;  // more chunks than any back end has buffers
  this->run(3, [&](int rank, Communicator& communicator) {
    const std::vector<float> own = this->values(rank, kSize);
    std::vector<float> x = own;
    ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kMean, {.name = "x", .weight = this->weight(rank)})->wait().ok());
    ASSERT_NO_FATAL_FAILURE(this->check_reduced(x, this->expected(3, kSize, ReduceOp::kMean), ReduceOp::kMean));
    std::vector<float> all(3 * kSize);
    ASSERT_TRUE(communicator.all_gather(own, all, {.name = "x"})->wait().ok());
    std::vector<float> row(kSize);
    ASSERT_TRUE(communicator.reduce_scatter(all, row, ReduceOp::kMax, {.name = "x"})->wait().ok());
    ASSERT_EQ(row, this->values(rank, kSize)) << "the maximum of three equal rows";
    ASSERT_TRUE(communicator.broadcast(row, 2, {.name = "x"})->wait().ok());
    ASSERT_EQ(row, this->values(2, kSize));
  });
}

TYPED_TEST_P(CommunicatorConformance, Bfloat16OnTheWireGivesAllRanksTheSameBits) {
  if constexpr (!Documented<TypeParam>::kBf16) {
    this->run(3, [&](int rank, Communicator& communicator) {
      std::vector<float> x(7);
      const Status status = communicator.all_reduce(x, ReduceOp::kMean, {.name = "x", .wire = DType::kBF16})->wait();
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, Code::kInvalidArgument);
      const std::string wanted = "rank " + std::to_string(rank) + " calls all_reduce \"x\" float32[7] mean as bfloat16";
      EXPECT_NE(status.error().message.find(wanted), std::string::npos) << status.error().message;
    });
    return;
  }
  for (const std::size_t size : {std::size_t{7}, std::size_t{20'001}}) {
    std::vector<std::vector<float>> results(3);
    this->run(3, [&](int rank, Communicator& communicator) {
      std::vector<float> x = this->values(rank, size);
      ASSERT_TRUE(communicator.all_reduce(x, ReduceOp::kMean, {.name = "x", .wire = DType::kBF16})->wait().ok());
      results[static_cast<std::size_t>(rank)] = x;
    });
    std::vector<float> wanted(size);
    const auto a = this->values(0, size);
    const auto b = this->values(1, size);
    const auto c = this->values(2, size);
    for (std::size_t i = 0; i < size; ++i) wanted[i] = (a[i] + b[i] + c[i]) / 3;
    for (const std::vector<float>& result : results) {
      ASSERT_EQ(result, results[0]);
      // Values are below 1 and rounded at most twice for each rank, each time by at most 2^-9 of themselves.
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(result[i], wanted[i], 3.0 / 256);
    }
  }
}

TYPED_TEST_P(CommunicatorConformance, BadArgumentsOfOneRankReachAllRanks) {
  this->run(3, [&](int rank, Communicator& communicator) {
    std::vector<float> x(4);
    const Status status =
        communicator.all_reduce(x, ReduceOp::kMean, {.name = "grad", .weight = rank == 2 ? NAN : 1.0})->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find("rank 2 calls all_reduce \"grad\""), std::string::npos)
        << status.error().message;
  });
  this->run(2, [&](int, Communicator& communicator) {
    std::vector<float> x(4);
    const Status status = communicator.all_reduce(x, ReduceOp::kMean, {.name = "grad", .weight = 0})->wait();
    ASSERT_FALSE(status.ok()) << "no rank has any weight";
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  });
}

TYPED_TEST_P(CommunicatorConformance, AMissingRankEndsTheWaitAtItsDeadlineByName) {
  this->run(3, [&](int rank, Communicator& communicator) {
    std::vector<float> x(4);
    ASSERT_TRUE(communicator.barrier({.name = "start"})->wait().ok());
    communicator.activity().begin_step(412);
    communicator.activity().enter(rank == 1 ? "input_fn" : "compute");
    if (rank == 1) {
      std::this_thread::sleep_for(300ms);
    }
    const auto start = std::chrono::steady_clock::now();
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 100ms})->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
    EXPECT_NE(
        status.error().message.find("step 412: rank 1 has not entered all_reduce(grad); it is in input_fn for 0."),
        std::string::npos)
        << status.error().message;
    EXPECT_EQ(communicator.activity().now().what, rank == 1 ? "input_fn" : "compute");
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);  // 100 ms, and a slow machine's scheduling
  });
}

TYPED_TEST_P(CommunicatorConformance, AbortFromAnotherThreadWakesEveryRank) {
  std::vector<std::string> messages(3);
  this->run(3, [&](int rank, Communicator& communicator) {
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(50ms);
        communicator.abort("because");
        communicator.abort("again");
      });
    }
    std::vector<float> x(4);
    // Ranks 0 and 1 wait for rank 2, which comes too late.
    if (rank == 2) std::this_thread::sleep_for(200ms);
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 20s})->wait();
    if (aborter.joinable()) aborter.join();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCancelled);
    messages[static_cast<std::size_t>(rank)] = status.error().message;
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("rank 0 aborted: because"), std::string::npos) << message;
}

TYPED_TEST_P(CommunicatorConformance, DroppingAnUnfinishedWorkAbortsTheGroup) {
  this->run(2, [&](int rank, Communicator& communicator) {
    std::vector<float> x(4);
    if (rank == 0) {
      communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad"}).reset();
    } else {
      std::this_thread::sleep_for(50ms);
    }
    const Status status = communicator.barrier({.name = "b", .timeout = 20s})->wait();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCancelled);
  });
}

TYPED_TEST_P(CommunicatorConformance, ReformsAfterAnAbortWithoutTheRankThatLeft) {
  const std::uint64_t next = 100;
  this->run(4, [&](int rank, Communicator& communicator) {
    std::vector<float> x = this->values(rank, 10);
    if (rank == 1) return;  // gone for good
    const Status broken = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 10s})->wait();
    ASSERT_FALSE(broken.ok());
    communicator.abort("too late, and harmless");
    const GroupView old = communicator.view();
    EXPECT_EQ(communicator.reform(old, 1s).error().code, Code::kInvalidArgument);
    EXPECT_EQ(communicator.reform({.epoch = next, .rank = 3, .size = 3}, 1s).error().code, Code::kInvalidArgument);
    const int rank_now = rank == 0 ? 0 : rank - 1;
    const Status reformed = communicator.reform({.epoch = next, .rank = rank_now, .size = 3}, 20s);
    ASSERT_TRUE(reformed.ok()) << reformed.error().message;
    EXPECT_EQ(communicator.view().epoch, next);
    EXPECT_EQ(communicator.view().rank, rank_now);
    x = this->values(rank_now, 10);
    const Status again = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad"})->wait();
    ASSERT_TRUE(again.ok()) << again.error().message;
    this->check_reduced(x, this->expected(3, 10, ReduceOp::kSum), ReduceOp::kSum);
  });
}

TYPED_TEST_P(CommunicatorConformance, FormingAGroupEndsAtItsDeadlineByName) {
  const auto alone = this->world_.join({.epoch = 50, .rank = 0, .size = 2}, 50ms);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().code, Code::kDeadlineExceeded);
  EXPECT_NE(alone.error().message.find("rank 1 of 2 did not come"), std::string::npos) << alone.error().message;
  EXPECT_EQ(this->world_.join({.epoch = 51, .rank = 2, .size = 2}, 50ms).error().code, Code::kInvalidArgument);
}

REGISTER_TYPED_TEST_SUITE_P(CommunicatorConformance, AllReduceGivesEveryRankTheReduction,
                            AllGatherGivesEveryRankAllRows, GatherIntegersKeepsEveryBit,
                            IntegersAreNotTakenForAsManyFloats, ReduceScatterGivesEachRankItsRow,
                            BroadcastGivesEveryRankTheRootsValues, BarrierHoldsUntilTheLastRankComes,
                            WorksMayOverlapAndBeAwaitedInAnyOrder, MismatchGivesEveryRankTheSameError,
                            MismatchIsSaidBeforeTheLastRankComes, OrderOfCallsMustBeTheSame, LargeValuesGoInPieces,
                            Bfloat16OnTheWireGivesAllRanksTheSameBits, BadArgumentsOfOneRankReachAllRanks,
                            AMissingRankEndsTheWaitAtItsDeadlineByName, AbortFromAnotherThreadWakesEveryRank,
                            DroppingAnUnfinishedWorkAbortsTheGroup, ReformsAfterAnAbortWithoutTheRankThatLeft,
                            FormingAGroupEndsAtItsDeadlineByName);

}  // namespace troupe::collectives
