// The algorithms between processes, played as data: all ranks' steps against each other with queues in order, on values
// that remember who they came from. Steps and bytes are those that schedule.hpp states.
#include <troupe/collectives/detail/schedule.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>

namespace troupe::collectives::detail {
namespace {

constexpr std::size_t kTestSegment = 8;
// None, less than a rank has, one block, several, and an odd rest.
constexpr std::size_t kCounts[] = {0, 1, 5, 64, 203};

using Values = std::vector<std::string>;  // what each element is made of

struct Sent {
  std::size_t elements = 0;  // by one rank
  std::size_t messages = 0;
};

struct Play {
  std::vector<Values> inputs, results;
  std::vector<std::vector<Step>> steps;
  std::vector<Sent> sent;
  std::size_t most_unread = 0;  // messages of one rank at another

  /// Runs until nobody can go on. Fails the test if somebody is not at the end then.
  void run() {
    const std::size_t size = steps.size();
    sent.resize(size);
    std::vector<std::size_t> at(size);
    std::map<std::pair<std::size_t, std::size_t>, std::deque<Values>> queues;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < size; ++rank) {
        while (at[rank] < steps[rank].size() && step(rank, steps[rank][at[rank]], queues)) {
          ++at[rank];
          moved = true;
        }
      }
      for (const auto& [ends, queue] : queues) most_unread = std::max(most_unread, queue.size());
    }
    for (std::size_t rank = 0; rank < size; ++rank) ASSERT_EQ(at[rank], steps[rank].size()) << "rank " << rank;
    for (const auto& [ends, queue] : queues) ASSERT_TRUE(queue.empty()) << "rank " << ends.first << " sent too much";
  }

  std::vector<bool> contributes;

 private:
  bool step(std::size_t rank, const Step& step, auto& queues) {
    const auto peer = static_cast<std::size_t>(step.peer);
    const auto range = [&](Values& values, std::size_t begin) {
      return Values(values.begin() + static_cast<std::ptrdiff_t>(begin),
                    values.begin() + static_cast<std::ptrdiff_t>(begin + step.count));
    };
    Values& result = results[rank];
    switch (step.kind) {
      case Step::Kind::kSendInput:
      case Step::Kind::kSendResult:
        queues[{rank, peer}].push_back(step.kind == Step::Kind::kSendInput ? range(inputs[rank], step.input)
                                                                           : range(result, step.result));
        sent[rank].elements += step.count;
        sent[rank].messages += 1;
        EXPECT_LE(step.count, kTestSegment);
        return true;
      case Step::Kind::kReceive:
      case Step::Kind::kAdd: {
        auto& queue = queues[{peer, rank}];
        if (queue.empty()) return false;
        EXPECT_EQ(queue.front().size(), step.count);
        for (std::size_t i = 0; i < step.count; ++i) {
          std::string& into = result[step.result + i];
          into = step.kind == Step::Kind::kReceive ? queue.front()[i] : queue.front()[i] + into;
        }
        queue.pop_front();
        return true;
      }
      case Step::Kind::kReduce: {
        std::vector<Values> parts;
        for (std::size_t other = 0; other < steps.size(); ++other) {
          if (!contributes[other]) continue;
          if (other == rank) {
            parts.push_back(range(inputs[rank], step.input));
            continue;
          }
          if (queues[{other, rank}].empty()) return false;
          parts.push_back(queues[{other, rank}].front());
          EXPECT_EQ(parts.back().size(), step.count);
        }
        for (std::size_t other = 0; other < steps.size(); ++other) {
          if (other != rank && contributes[other]) queues[{other, rank}].pop_front();
        }
        for (std::size_t i = 0; i < step.count; ++i) {
          result[step.result + i].clear();
          for (const Values& part : parts) result[step.result + i] += part[i];
        }
        return true;
      }
    }
    return false;
  }
};

/// "r" for a rank below 10: the result of a reduction is the ranks in the order in which they were added.
Values of(int rank, std::size_t count) { return Values(count, std::to_string(rank)); }

std::string all_ranks(const std::vector<bool>& contributes) {
  std::string text;
  for (std::size_t rank = 0; rank < contributes.size(); ++rank) {
    if (contributes[rank]) text += std::to_string(rank);
  }
  return text;
}

Place place(int rank, int size, std::vector<bool> contributes = {}) {
  return {.rank = rank, .size = size, .segment = kTestSegment, .contributes = std::move(contributes)};
}

TEST(Schedule, DoublingTellsEverybodyEverythingInLogarithmicSteps) {
  for (int size = 1; size <= 17; ++size) {
    std::vector<std::vector<DoublingLevel>> levels;
    for (int rank = 0; rank < size; ++rank) levels.push_back(doubling(rank, size));
    std::vector<std::vector<bool>> knows(static_cast<std::size_t>(size),
                                         std::vector<bool>(static_cast<std::size_t>(size)));
    for (std::size_t rank = 0; rank < knows.size(); ++rank) knows[rank][rank] = true;
    for (std::size_t level = 0; level < levels[0].size(); ++level) {
      const auto before = knows;
      std::vector<int> messages(static_cast<std::size_t>(size));
      for (std::size_t rank = 0; rank < knows.size(); ++rank) {
        const DoublingLevel& mine = levels[rank][level];
        for (int i = 0; i < size; ++i) {
          ASSERT_EQ(before[rank][static_cast<std::size_t>(i)], i >= mine.first && i < mine.first + mine.count);
        }
        for (const int to : mine.send_to) {
          const auto peer = static_cast<std::size_t>(to);
          const DoublingLevel& theirs = levels[peer][level];
          ASSERT_EQ(theirs.receive_from, static_cast<int>(rank));
          ASSERT_EQ(theirs.receive_first, mine.first);
          ASSERT_EQ(theirs.receive_count, mine.count);
          ++messages[peer];
          for (std::size_t i = 0; i < knows.size(); ++i) knows[peer][i] = knows[peer][i] || before[rank][i];
        }
      }
      for (std::size_t rank = 0; rank < knows.size(); ++rank) {
        ASSERT_EQ(messages[rank], levels[rank][level].receive_from >= 0 ? 1 : 0);
      }
    }
    std::size_t steps = 0;
    while ((1 << steps) < size) ++steps;
    ASSERT_EQ(levels[0].size(), steps);
    for (const auto& one : knows) ASSERT_TRUE(std::all_of(one.begin(), one.end(), [](bool b) { return b; })) << size;
  }
}

TEST(Schedule, DirectExchangeReducesInTheOrderOfRanksWithTheFewestBytes) {
  for (int size = 2; size <= 9; ++size) {
    for (const std::size_t count : kCounts) {
      for (const bool somebody_silent : {false, true}) {
        std::vector<bool> contributes(static_cast<std::size_t>(size), true);
        if (somebody_silent) contributes[static_cast<std::size_t>(size / 2)] = false;
        Play play;
        play.contributes = contributes;
        for (int rank = 0; rank < size; ++rank) {
          play.inputs.push_back(of(rank, count));
          play.results.push_back(of(rank, count));
          play.steps.push_back(direct_all_reduce(place(rank, size, contributes), count));
        }
        play.run();
        for (const Values& result : play.results) ASSERT_EQ(result, Values(count, all_ranks(contributes)));
        std::size_t all = 0;
        for (const Sent& sent : play.sent) all += sent.elements;
        const auto p = static_cast<std::size_t>(size);
        // P ranks with 2 (P-1)/P N each; who does not contribute sends only its results.
        if (!somebody_silent) {
          ASSERT_EQ(all, 2 * (p - 1) * count);
        }
        ASSERT_LE(play.most_unread, 4 * kLag);
      }
    }
  }
}

TEST(Schedule, RingAddsEveryRankOnceAndSendsOnlyToItsNeighbour) {
  for (int size = 2; size <= 9; ++size) {
    for (const std::size_t count : kCounts) {
      Play play;
      for (int rank = 0; rank < size; ++rank) {
        play.inputs.emplace_back();
        play.results.push_back(of(rank, count));
        play.steps.push_back(ring_all_reduce(place(rank, size), count));
        for (const Step& step : play.steps.back()) {
          const bool sends = step.kind == Step::Kind::kSendResult;
          ASSERT_EQ(step.peer, (rank + (sends ? 1 : size - 1)) % size);
        }
      }
      play.run();
      std::size_t all = 0;
      for (const Sent& sent : play.sent) all += sent.elements;
      ASSERT_EQ(all, 2 * static_cast<std::size_t>(size - 1) * count);
      for (std::size_t i = 0; i < count; ++i) {
        std::string sum = play.results[0][i];
        for (const Values& result : play.results) ASSERT_EQ(result[i], sum);
        std::sort(sum.begin(), sum.end());
        ASSERT_EQ(sum, all_ranks(std::vector<bool>(static_cast<std::size_t>(size), true)));
      }
      ASSERT_LE(play.most_unread, 2 * static_cast<std::size_t>(size * size) * kRingLag);
    }
  }
}

TEST(Schedule, ReduceScatterAndAllGatherTakeOneStep) {
  for (int size = 2; size <= 9; ++size) {
    for (const std::size_t count : kCounts) {
      const auto p = static_cast<std::size_t>(size);
      std::vector<bool> contributes(p, true);
      contributes[1] = false;
      Play scatter;
      Play gather;
      scatter.contributes = contributes;
      for (int rank = 0; rank < size; ++rank) {
        scatter.inputs.push_back(of(rank, p * count));
        scatter.results.push_back(of(rank, count));
        scatter.steps.push_back(direct_reduce_scatter(place(rank, size, contributes), count));
        gather.inputs.emplace_back();
        gather.results.push_back(Values(p * count));
        for (std::size_t i = 0; i < count; ++i) {
          gather.results.back()[static_cast<std::size_t>(rank) * count + i] = std::to_string(rank);
        }
        gather.steps.push_back(direct_all_gather(place(rank, size), count));
      }
      scatter.run();
      gather.run();
      Values rows;
      for (int rank = 0; rank < size; ++rank) {
        for (std::size_t i = 0; i < count; ++i) rows.push_back(std::to_string(rank));
      }
      for (std::size_t rank = 0; rank < p; ++rank) {
        ASSERT_EQ(scatter.results[rank], Values(count, all_ranks(contributes)));
        ASSERT_EQ(gather.results[rank], rows);
        ASSERT_EQ(gather.sent[rank].elements, (p - 1) * count);
        ASSERT_EQ(scatter.sent[rank].elements, contributes[rank] ? (p - 1) * count : 0);
      }
      ASSERT_LE(scatter.most_unread, 4 * kLag);
      ASSERT_LE(gather.most_unread, 4 * kLag);
    }
  }
}

TEST(Schedule, BroadcastGoesDownABinomialTree) {
  for (int size = 2; size <= 9; ++size) {
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : kCounts) {
        Play play;
        for (int rank = 0; rank < size; ++rank) {
          play.inputs.emplace_back();
          play.results.push_back(of(rank, count));
          play.steps.push_back(tree_broadcast(place(rank, size), root, count));
        }
        play.run();
        for (const Values& result : play.results) ASSERT_EQ(result, of(root, count));
        std::size_t steps = 0;
        while ((1 << steps) < size) ++steps;
        for (const Sent& sent : play.sent) ASSERT_LE(sent.elements, steps * count);
        ASSERT_EQ(play.sent[static_cast<std::size_t>(root)].elements, steps * count);
        ASSERT_LE(play.most_unread, 4 * kLag);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::collectives::detail
