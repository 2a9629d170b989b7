// The kernels of a table on a GPU against plain loops and the host's sum tree: odd sizes, wrapping ranges, rows that
// come twice, columns of every alignment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include <troupe/core/rng.hpp>
#include <troupe/replay/selectors/sum_tree.hpp>
#include <troupe/tests/gpu/gpu_under_test.hpp>

namespace troupe::replay {
namespace {

template <typename T>
std::vector<T> read(gpu::GpuUnderTest& gpu, const void* from, std::size_t count) {
  const std::vector<std::byte> bytes = gpu.download(from, count * sizeof(T));
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
template <typename T>
gpu::DeviceBytes upload(gpu::GpuUnderTest& gpu, const std::vector<T>& values) {
  return gpu.upload(std::as_bytes(std::span(values)));
}

/// A table's items on a GPU and on the host.
class Items {
 public:
  Items(gpu::GpuUnderTest& gpu, std::int64_t capacity, double exponent)
      : priorities(static_cast<std::size_t>(capacity)),
        times(static_cast<std::size_t>(capacity)),
        gpu_(gpu),
        on_priorities_(gpu.poisoned(sizeof(double) * priorities.size())),
        on_times_(gpu.poisoned(sizeof(std::int32_t) * times.size())),
        on_present_(gpu.poisoned(sizeof(std::int64_t))) {
    view.capacity = capacity;
    view.present = static_cast<std::int64_t*>(on_present_.get());
    view.priorities = static_cast<double*>(on_priorities_.get());
    view.times_sampled = static_cast<std::int32_t*>(on_times_.get());
    view.exponent = exponent;
    for (std::size_t weights = priorities.size();;) {
      const std::size_t nodes = (weights + 7) / 8;
      sizes.push_back(8 * nodes);
      levels_.push_back(upload(gpu, std::vector<double>(8 * nodes)));
      view.level[view.levels++] = static_cast<double*>(levels_.back().get());
      if (nodes == 1) break;
      weights = nodes;
    }
  }

  void insert(std::int64_t first, const std::vector<double>& values) {
    std::vector<TroupeCudaReplayItem> items;
    for (const double value : values) {
      const std::size_t slot = (static_cast<std::size_t>(first) + items.size()) % priorities.size();
      items.push_back({.priority = value, .times_sampled = static_cast<std::int32_t>(items.size() % 5)});
      priorities[slot] = value;
      times[slot] = items.back().times_sampled;
      present = std::max(present, static_cast<std::int64_t>(slot) + 1);
    }
    const gpu::DeviceBytes on_gpu = upload(gpu_, items);
    gpu_.check(gpu_.api().replay_insert(&view, static_cast<const TroupeCudaReplayItem*>(on_gpu.get()), first,
                                        static_cast<std::int64_t>(values.size()), present, gpu_.stream()),
               "replay_insert");
    gpu_.wait();
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(present); ++i) {
      all.push_back(priorities[i] == 0   ? 0
                    : view.exponent == 1 ? priorities[i]
                                         : std::pow(priorities[i], view.exponent));
    }
    return all;
  }
  /// Every node on the GPU is made of its children, and the leaves are the host's, but for rounding of pow().
  void check() {
    ASSERT_EQ(read<std::int64_t>(gpu_, view.present, 1)[0], present);
    const auto count = static_cast<std::size_t>(present);
    const auto got_priorities = read<double>(gpu_, view.priorities, count);
    const auto got_times = read<std::int32_t>(gpu_, view.times_sampled, count);
    const std::vector<double> expected = weights();
    std::vector<double> below = read<double>(gpu_, view.level[0], sizes[0]);
    for (std::size_t i = 0; i < below.size(); ++i) {
      if (i >= count) {
        ASSERT_EQ(below[i], 0) << "a slot that is not in use";
        continue;
      }
      ASSERT_EQ(got_priorities[i], priorities[i]) << i;
      ASSERT_EQ(got_times[i], times[i]) << i;
      ASSERT_NEAR(below[i], expected[i], view.exponent == 1 ? 0 : 1e-15 * expected[i]) << i;
    }
    for (std::size_t level = 1; level < sizes.size(); ++level) {
      const std::vector<double> above = read<double>(gpu_, view.level[level], sizes[level]);
      for (std::size_t node = 0; node < below.size() / 8; ++node) {
        const double* const c = below.data() + 8 * node;
        ASSERT_EQ(above[node], ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]))) << level;
      }
      below = above;
    }
  }

  std::vector<double> priorities;
  std::vector<std::int32_t> times;
  std::int64_t present = 0;
  TroupeCudaReplay view{};
  std::vector<std::size_t> sizes;  ///< of the levels, in doubles

 private:
  gpu::GpuUnderTest& gpu_;
  gpu::DeviceBytes on_priorities_, on_times_, on_present_;
  std::vector<gpu::DeviceBytes> levels_;
};

/// Draws on a GPU.
class Draws {
 public:
  Draws(gpu::GpuUnderTest& gpu, const std::vector<std::uint64_t>& numbers)
      : count(numbers.size()),
        gpu_(gpu),
        numbers_(upload(gpu, numbers)),
        slots_(gpu.poisoned(4 * count)),
        probabilities_(gpu.poisoned(8 * count)),
        priorities_(gpu.poisoned(8 * count)),
        times_(gpu.poisoned(4 * count)),
        last_(gpu.poisoned(4 * count)),
        weights_(gpu.poisoned(4 * count)),
        weighted_(gpu.poisoned(4 * count)) {}
  void draw(const TroupeCudaReplay& table, double exponent, bool weighted,
            const std::vector<TroupeCudaReplayColumn>& columns = {}) {
    const TroupeCudaDraws draws{.numbers = static_cast<const std::uint64_t*>(numbers_.get()),
                                .slots = static_cast<std::uint32_t*>(slots_.get()),
                                .probabilities = static_cast<double*>(probabilities_.get()),
                                .priorities = static_cast<double*>(priorities_.get()),
                                .times_sampled = static_cast<std::int32_t*>(times_.get()),
                                .last = static_cast<std::int32_t*>(last_.get()),
                                .weights = static_cast<float*>(weights_.get())};
    gpu_.check(
        gpu_.api().replay_draw(&table, &draws, static_cast<std::int64_t>(count), columns.data(),
                               static_cast<std::int32_t>(columns.size()),
                               weighted ? static_cast<float*>(weighted_.get()) : nullptr, exponent, gpu_.stream()),
        "replay_draw");
    slots = read<std::uint32_t>(gpu_, slots_.get(), count);
    probabilities = read<double>(gpu_, probabilities_.get(), count);
    priorities = read<double>(gpu_, priorities_.get(), count);
    times = read<std::int32_t>(gpu_, times_.get(), count);
    last = read<std::int32_t>(gpu_, last_.get(), count);
    weights = read<float>(gpu_, weighted_.get(), count);
  }
  const std::uint32_t* on_slots() const { return static_cast<const std::uint32_t*>(slots_.get()); }
  const std::int32_t* on_last() const { return static_cast<const std::int32_t*>(last_.get()); }

  std::size_t count;
  std::vector<std::uint32_t> slots;
  std::vector<double> probabilities, priorities;
  std::vector<std::int32_t> times, last;
  std::vector<float> weights;

 private:
  gpu::GpuUnderTest& gpu_;
  gpu::DeviceBytes numbers_, slots_, probabilities_, priorities_, times_, last_, weights_, weighted_;
};

std::vector<double> random_priorities(Rng& rng, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = rng.below(4) == 0 ? 0 : 10 * rng.uniform();
  return values;
}

class ReplayKernels : public testing::Test {
 protected:
  void each(const std::function<void(gpu::GpuUnderTest&)>& test) {
    for (const auto& gpu : gpu::gpus_under_test()) {
      SCOPED_TRACE(gpu->name());
      test(*gpu);
      gpu->wait();
      EXPECT_TRUE(gpu->good()) << gpu->why();
      gpu->restart();
    }
  }
};

TEST_F(ReplayKernels, InsertAndSumUp) {
  each([](gpu::GpuUnderTest& gpu) {
    Rng rng(1);
    for (const std::int64_t capacity : {1, 2, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4097, 20'011}) {
      for (const double exponent : {1.0, 0.6}) {
        SCOPED_TRACE(testing::Message() << capacity << " slots, exponent " << exponent);
        Items items(gpu, capacity, exponent);
        std::int64_t next = 0;
        for (const std::int64_t count : {std::int64_t{1}, capacity / 3, capacity / 2, capacity, std::int64_t{1}}) {
          items.insert(next, random_priorities(rng, count));
          items.check();
          if (testing::Test::HasFatalFailure()) return;
          next = (next + count) % capacity;
        }
      }
    }
    const Items items(gpu, 4, 1);
    EXPECT_NE(gpu.api().replay_insert(&items.view, nullptr, 0, 5, 4, gpu.stream()), 0) << "more than there are slots";
    EXPECT_NE(gpu.api().replay_insert(&items.view, nullptr, 4, 1, 4, gpu.stream()), 0);
    gpu.wait();
  });
}

TEST_F(ReplayKernels, DrawAsTheHostsSumTree) {
  each([](gpu::GpuUnderTest& gpu) {
    Rng rng(2);
    for (const std::int64_t capacity : {1, 8, 9, 65, 600, 20'011}) {
      Items items(gpu, capacity, 1);
      // Part of the tree, then all of it.
      for (const std::int64_t count : {(capacity + 2) / 3, capacity - (capacity + 2) / 3}) {
        if (count == 0) continue;
        items.insert(items.present, random_priorities(rng, count));
        items.insert(0, {1.0});  // so that it is not empty
        SumTree tree;
        tree.assign(items.weights());
        for (const std::size_t rows : {1, 31, 33, 256, 257, 1000}) {
          std::vector<std::uint64_t> numbers(rows);
          for (std::uint64_t& number : numbers) number = rng();
          numbers[0] = rows % 2 == 0 ? 0 : ~std::uint64_t{0};
          std::vector<double> targets(rows);
          for (std::size_t i = 0; i < rows; ++i) {
            targets[i] = static_cast<double>(numbers[i] >> 11) * 0x1.0p-53 * tree.total();
          }
          std::vector<Slot> expected(rows);
          tree.find(targets, expected);
          Draws draws(gpu, numbers);
          const std::vector<std::int32_t> before = items.times;
          draws.draw(items.view, 0.5, true);
          std::vector<float> weights;
          for (std::size_t i = 0; i < rows; ++i) {
            ASSERT_EQ(draws.slots[i], expected[i]) << i << " of " << rows;
            ASSERT_EQ(draws.probabilities[i], tree.weight(expected[i]) / tree.total());
            ASSERT_EQ(draws.priorities[i], items.priorities[expected[i]]);
            ASSERT_EQ(draws.times[i], ++items.times[expected[i]]);
            const bool again = std::find(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1, expected.end(),
                                         expected[i]) != expected.end();
            ASSERT_EQ(draws.last[i], again ? 0 : 1) << i;
            weights.push_back(
                static_cast<float>(std::pow(1 / (static_cast<double>(items.present) * draws.probabilities[i]), 0.5)));
          }
          const float largest = *std::max_element(weights.begin(), weights.end());
          for (std::size_t i = 0; i < rows; ++i) ASSERT_NEAR(draws.weights[i], weights[i] / largest, 2e-7F);
          items.check();
        }
      }
    }
  });
}

TEST_F(ReplayKernels, DrawWithoutATreeOrWeights) {
  each([](gpu::GpuUnderTest& gpu) {
    Items items(gpu, 100, 1);
    items.insert(0, std::vector<double>(70, 0.0));
    Draws zeros(gpu, {0, ~std::uint64_t{0}, std::uint64_t{1} << 63, 0x0123456789abcdefU});
    zeros.draw(items.view, 0, false);
    EXPECT_THAT(zeros.slots, testing::ElementsAre(0U, 69U, 35U, 0U)) << "the high half of number * 70";
    EXPECT_THAT(zeros.probabilities, testing::Each(1.0 / 70));
    items.view.levels = 0;
    Draws slots(gpu, {5, 0, 69, 5});
    slots.draw(items.view, 0, false);
    EXPECT_THAT(slots.slots, testing::ElementsAre(5U, 0U, 69U, 5U));
    EXPECT_THAT(slots.probabilities, testing::Each(1.0)) << "fifo or lifo";
    EXPECT_THAT(slots.last, testing::ElementsAre(0, 1, 1, 1));
    items.view.uniform = 1;
    slots.draw(items.view, 0, false);
    EXPECT_THAT(slots.probabilities, testing::Each(1.0 / 70));
  });
}

TEST_F(ReplayKernels, CountDrawsUpToTheLargestNumber) {
  each([](gpu::GpuUnderTest& gpu) {
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    Items items(gpu, 2, 1);
    items.insert(0, {1, 1});
    const gpu::DeviceBytes times = upload(gpu, std::vector<std::int32_t>{kMost - 1, kMost});
    items.view.times_sampled = static_cast<std::int32_t*>(times.get());
    items.view.levels = 0;
    Draws draws(gpu, {0, 1, 0, 0});
    draws.draw(items.view, 0, false);
    EXPECT_THAT(draws.times, testing::Each(kMost));
    EXPECT_THAT(read<std::int32_t>(gpu, times.get(), 2), testing::Each(kMost));
  });
}

TEST_F(ReplayKernels, Update) {
  each([](gpu::GpuUnderTest& gpu) {
    Rng rng(3);
    for (const std::int64_t capacity : {1, 9, 600, 5000}) {
      Items items(gpu, capacity, 1);
      items.insert(0, random_priorities(rng, capacity));
      items.insert(0, {1.0});
      for (const std::size_t rows : {1, 33, 300, 1500}) {
        std::vector<std::uint64_t> numbers(rows);
        for (std::uint64_t& number : numbers) number = rng();
        Draws draws(gpu, numbers);
        draws.draw(items.view, 0, false);
        items.times = read<std::int32_t>(gpu, items.view.times_sampled, items.times.size());
        std::vector<float> values(rows);
        for (std::size_t i = 0; i < rows; ++i) {
          values[i] = i % 7 == 3    ? NAN
                      : i % 7 == 5  ? -1.0F
                      : i % 11 == 0 ? INFINITY
                                    : static_cast<float>(rng.uniform());
        }
        const gpu::DeviceBytes on_values = upload(gpu, values);
        for (const int skip : {1, 0}) {
          TroupeCudaControl control{};
          control.skip = skip;
          const gpu::DeviceBytes on_control = upload(gpu, std::vector{control});
          if (skip == 0) {
            for (std::size_t i = 0; i < rows; ++i) {
              items.priorities[draws.slots[i]] = values[i] >= 0 && std::isfinite(values[i]) ? values[i] : 0;
            }
          }
          gpu.check(gpu.api().replay_update(&items.view, draws.on_slots(), draws.on_last(), on_values.get(),
                                            TROUPE_CUDA_F32, static_cast<std::int64_t>(rows),
                                            static_cast<const TroupeCudaControl*>(on_control.get()), gpu.stream()),
                    "replay_update");
          items.check();
          if (testing::Test::HasFatalFailure()) return;
        }
        items.insert(0, {1.0});
      }
      // Of slots that are all different, in double.
      std::vector<std::uint32_t> slots(static_cast<std::size_t>((capacity + 1) / 2));
      std::vector<double> values(slots.size());
      for (std::size_t i = 0; i < slots.size(); ++i) {
        slots[i] = static_cast<std::uint32_t>(capacity) - 1 - 2 * static_cast<std::uint32_t>(i);
        items.priorities[slots[i]] = values[i] = rng.uniform();
      }
      const gpu::DeviceBytes on_slots = upload(gpu, slots), on_values = upload(gpu, values);
      gpu.check(gpu.api().replay_update(&items.view, static_cast<const std::uint32_t*>(on_slots.get()), nullptr,
                                        on_values.get(), TROUPE_CUDA_F64, static_cast<std::int64_t>(slots.size()),
                                        nullptr, gpu.stream()),
                "replay_update");
      items.check();
    }
    const TroupeCudaReplay none{};
    EXPECT_NE(gpu.api().replay_update(&none, nullptr, nullptr, nullptr, TROUPE_CUDA_I32, 1, nullptr, gpu.stream()), 0);
  });
}

TEST_F(ReplayKernels, DrawsBringColumnsOfEveryAlignmentAndNumber) {
  each([](gpu::GpuUnderTest& gpu) {
    Rng rng(4);
    const std::vector<std::vector<std::int64_t>> signatures = {
        {1},
        {3, 5, 1, 2, 100},
        {4, 8, 12},
        {16, 16, 4, 48},
        {68, 24, 4, 4, 68},
        {4096, 2},
        {7001},
        {0, 3},
        std::vector<std::int64_t>(2 * TROUPE_CUDA_REPLAY_COLUMNS + 3, 4)};
    for (const std::vector<std::int64_t>& sizes : signatures) {
      const std::int64_t packed = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      const std::int64_t stride = (packed + 15) / 16 * 16, slots = 50;
      std::vector<std::byte> rows(static_cast<std::size_t>(stride * slots));
      for (std::byte& each : rows) each = static_cast<std::byte>(rng());
      const gpu::DeviceBytes on_rows = upload(gpu, rows);
      for (const std::size_t count : {1, 3, 64, 777}) {
        for (const std::size_t shift : {0, 1, 4}) {
          Items items(gpu, slots, 1);
          items.insert(0, std::vector<double>(static_cast<std::size_t>(slots), 1.0));
          items.view.levels = 0;
          items.view.rows = static_cast<const std::uint8_t*>(on_rows.get());
          items.view.stride = stride;
          std::vector<std::uint64_t> drawn(count);
          for (std::uint64_t& slot : drawn) slot = rng.below(static_cast<std::uint64_t>(slots));
          std::vector<gpu::DeviceBytes> to;
          std::vector<TroupeCudaReplayColumn> columns;
          std::int64_t offset = 0;
          for (const std::int64_t bytes : sizes) {
            to.push_back(gpu.poisoned(count * static_cast<std::size_t>(bytes) + shift));
            columns.push_back({offset, bytes, static_cast<std::byte*>(to.back().get()) + shift});
            offset += bytes;
          }
          Draws draws(gpu, drawn);
          draws.draw(items.view, 0, false, columns);
          for (std::size_t c = 0; c < sizes.size(); ++c) {
            std::vector<std::byte> expected(shift, std::byte{0xff});
            for (const std::uint64_t slot : drawn) {
              const auto from = rows.begin() + static_cast<std::int64_t>(slot) * stride + columns[c].offset;
              expected.insert(expected.end(), from, from + sizes[c]);
            }
            ASSERT_EQ(gpu.download(to[c].get(), expected.size()), expected) << sizes[c] << " bytes, " << count;
          }
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(draws.slots[i], drawn[i]) << i;
        }
      }
    }
  });
}

}  // namespace
}  // namespace troupe::replay
