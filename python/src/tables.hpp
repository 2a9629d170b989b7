#pragma once
// What the bindings of replay tables share. The tables of the C++ library never wait; here whoever is not admitted
// sleeps until somebody has changed something.
#include <nanobind/stl/map.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <troupe/replay/sequence_tables.hpp>

#include "binding.hpp"

namespace troupe::python {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Chunk = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// (samples per insert, least size to sample, least and greatest difference), see replay::RateLimiterOptions.
using Limits = std::tuple<double, std::int64_t, double, double>;
/// Name, max_items, sampler, remover, priority_exponent, max_times_sampled, limits, seed.
using TableDescription =
    std::tuple<std::string, std::int64_t, std::string, std::string, double, std::int64_t, Limits, std::uint64_t>;

/// By table, of each column what replay::SequenceColumn has, in its order.
using PatternDescriptions =
    std::map<std::string, std::vector<std::tuple<std::string, std::string, std::int64_t, std::int64_t, bool>>>;

/// Without signature. Raises TroupeError.
replay::TableOptions table_options(const TableDescription& description);
/// Without seed. Raises TroupeError.
replay::SequenceOptions sequence_options(const std::vector<Column>& columns,
                                         const std::vector<TableDescription>& tables,
                                         const PatternDescriptions& patterns, std::int64_t chunk_steps);
/// Raises TroupeError.
Signature signature_of(const std::vector<Column>& columns);

/// Borrows.
inline BatchView batch_of(const Signature& signature, const std::vector<Rows>& columns, std::int64_t rows) {
  BatchView batch{.signature = &signature, .rows = rows, .columns = {}};
  for (const Rows& column : columns) {
    batch.columns.emplace_back(static_cast<const std::byte*>(column.data()), column.nbytes());
  }
  return batch;
}

/// (keys, probabilities, priorities, times sampled, items in the table) of at least one item that was drawn, arrays of
/// their own.
inline nb::tuple about(std::span<const replay::SampledItem> items) {
  const auto [keys, key] = array<std::uint64_t>(items.size());
  const auto [probabilities, probability] = array<double>(items.size());
  const auto [priorities, priority] = array<double>(items.size());
  const auto [times, time] = array<std::int32_t>(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    key[i] = items[i].key;
    probability[i] = items[i].probability;
    priority[i] = items[i].priority;
    time[i] = items[i].times_sampled;
  }
  return nb::make_tuple(keys, probabilities, priorities, times, items.front().table_items);
}

inline nb::list list_of(const std::vector<std::vector<std::byte>>& chunks) {
  nb::list made;
  for (const auto& chunk : chunks) made.append(nb::bytes(chunk.data(), chunk.size()));
  return made;
}
inline std::vector<std::vector<std::byte>> copies_of(const std::vector<Chunk>& chunks) {
  std::vector<std::vector<std::byte>> copied;
  for (const Chunk& chunk : chunks) {
    const auto* const begin = reinterpret_cast<const std::byte*>(chunk.data());
    copied.emplace_back(begin, begin + chunk.size());
  }
  return copied;
}

/// What several threads of Python do with one object, one at a time and without Python's lock.
class Waiting {
 public:
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  /// What `work` gives; others see the change.
  template <typename F>
  auto at_once(F work) {
    auto result = [&] {
      const nb::gil_scoped_release others_run;
      const auto held = lock();
      return work();
    }();
    changed_.notify_all();
    return result;
  }

  /// The same of work that is kUnavailable until the limiter admits it. Raises TimeoutError, saying for what it waits.
  template <typename F>
  auto when_admitted(const char* what, double timeout_s, F work) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kLook = std::chrono::milliseconds(100);  // whether Ctrl-C was pressed meanwhile
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(std::min(std::max(timeout_s, 0.0), 1e6)));
    while (true) {
      auto result = [&] {
        const nb::gil_scoped_release others_run;
        auto held = lock();
        auto tried = work();
        const auto until = std::min(deadline, Clock::now() + kLook);
        while (!tried.ok() && tried.error().code == Code::kUnavailable && Clock::now() < until) {
          changed_.wait_until(held, until);
          tried = work();
        }
        return tried;
      }();
      if (result.ok() || result.error().code != Code::kUnavailable) {
        changed_.notify_all();
        return result;
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (Clock::now() < deadline) continue;
      PyErr_SetString(PyExc_TimeoutError, (std::string(what) + ": " + result.error().message).c_str());
      throw nb::python_error();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace troupe::python
