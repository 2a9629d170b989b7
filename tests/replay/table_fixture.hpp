#pragma once
// Small tables whose rows tell what they are: every element of row k is a function of k.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/replay/table.hpp>

namespace troupe::replay {

/// Three columns of different types, of which one is odd-sized.
inline Signature test_signature() {
  return {{"observation", DType::kF32, {5}}, {"pixels", DType::kU8, {3, 3}}, {"reward", DType::kF64, {}}};
}

/// Rows of test_signature() that carry `ids`.
class TestBatch {
 public:
  explicit TestBatch(std::vector<std::int64_t> ids) : buffer_(test_signature(), static_cast<std::int64_t>(ids.size())) {
    const MutableBatchView& view = buffer_.mutable_view();
    for (std::size_t r = 0; r < ids.size(); ++r) {
      for (std::size_t i = 0; i < 5; ++i)
        view.as<float>(0)[r * 5 + i] = static_cast<float>(ids[r] * 5) + static_cast<float>(i);
      for (std::size_t i = 0; i < 9; ++i)
        view.as<std::uint8_t>(1)[r * 9 + i] = static_cast<std::uint8_t>(ids[r] + static_cast<std::int64_t>(i));
      view.as<double>(2)[r] = static_cast<double>(ids[r]);
    }
  }
  BatchView view() const { return buffer_.view(); }

  /// The id of row r, or -1 if its elements do not belong together.
  static std::int64_t id(const BatchView& view, std::size_t r) {
    const auto id = static_cast<std::int64_t>(view.as<double>(2)[r]);
    for (std::size_t i = 0; i < 5; ++i) {
      if (view.as<float>(0)[r * 5 + i] != static_cast<float>(id * 5) + static_cast<float>(i)) return -1;
    }
    for (std::size_t i = 0; i < 9; ++i) {
      if (view.as<std::uint8_t>(1)[r * 9 + i] != static_cast<std::uint8_t>(id + static_cast<std::int64_t>(i)))
        return -1;
    }
    return id;
  }

 private:
  BatchBuffer buffer_;
};

inline std::unique_ptr<Table> make_table(TableOptions options) {
  if (options.signature.empty()) options.signature = test_signature();
  return std::move(Table::make(std::move(options))).value();
}

/// Inserts one row that carries `id`.
inline Result<Key> insert_one(Table& table, std::int64_t id, double priority = 1.0) {
  return table.insert(TestBatch({id}).view(), {&priority, 1});
}

struct Drawn {
  std::int64_t id = 0;
  SampledItem item;
};

inline Result<std::vector<Drawn>> sample(Table& table, std::int64_t rows) {
  BatchBuffer buffer(test_signature(), rows);
  std::vector<SampledItem> items(static_cast<std::size_t>(rows));
  TROUPE_TRY(table.sample(buffer.mutable_view(), items));
  std::vector<Drawn> drawn;
  for (std::size_t r = 0; r < items.size(); ++r) drawn.push_back({TestBatch::id(buffer.view(), r), items[r]});
  return drawn;
}

/// The same, where the sample must succeed.
inline std::vector<Drawn> must_sample(Table& table, std::int64_t rows) {
  return std::move(sample(table, rows)).value();
}

}  // namespace troupe::replay
