#pragma once
// What tests of tables on a GPU have in common: nothing is left behind on the device, and memory there.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/core/rng.hpp>
#include <troupe/tests/replay/tables_under_test.hpp>

namespace troupe::replay {

class GpuTableTest : public testing::Test {
 protected:
  static const TroupeEmulator& emulator() { return *troupe_cuda_emulator(); }
  const TroupeCudaApi& api() const { return gpu_->api(); }

  void SetUp() override {
    emulator().reset();
    before_ = emulator().alive();
    ASSERT_TRUE(gpu_->use().ok());
    ASSERT_EQ(api().make_stream(&stream_), 0);
  }
  void TearDown() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(api().synchronise(stream_), 0) << emulator().fault();
      EXPECT_EQ(api().destroy_stream(stream_), 0);
    }
    EXPECT_EQ(emulator().alive(), before_) << "left behind on the device";
  }

  std::unique_ptr<GpuTable> make_on_gpu(TableOptions options) {
    if (options.signature.empty()) options.signature = test_signature();
    return GpuTable::make(std::move(options), gpu_).value();
  }
  gpu::GpuMemory device(std::size_t bytes) { return gpu_->allocate(bytes, "a test").value(); }
  template <typename T>
  gpu::GpuMemory upload(const std::vector<T>& values) {
    gpu::GpuMemory memory = device(values.size() * sizeof(T));
    EXPECT_EQ(api().copy(memory.get(), values.data(), values.size() * sizeof(T), stream_), 0);
    return memory;
  }
  /// Waits for the stream of the test.
  template <typename T>
  std::vector<T> download(const void* from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(api().copy(values.data(), from, count * sizeof(T), stream_), 0) << emulator().fault();
    EXPECT_EQ(api().synchronise(stream_), 0) << emulator().fault();
    return values;
  }

  std::shared_ptr<const gpu::Gpu> gpu_ = test_gpu();
  TroupeCudaStream* stream_ = nullptr;  ///< as a learner has one

 private:
  std::int64_t before_ = 0;
};

/// Columns of test_signature() on the device for `rows` rows.
class DeviceBatch {
 public:
  DeviceBatch(const gpu::Gpu& gpu, std::int64_t rows) : rows_(rows) {
    for (const TensorSpec& spec : signature_) {
      memory_.push_back(gpu.allocate(spec.bytes() * static_cast<std::size_t>(rows), "a test").value());
      columns_.push_back(memory_.back().get());
    }
  }
  DeviceColumns columns() const { return columns_; }
  /// What each row is (TestBatch::id). Waits for `stream`.
  std::vector<std::int64_t> ids(const gpu::Gpu& gpu, TroupeCudaStream* stream) const {
    BatchBuffer buffer(signature_, rows_);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const auto to = buffer.mutable_view().columns[c];
      EXPECT_EQ(gpu.api().copy(to.data(), columns_[c], to.size(), stream), 0);
    }
    EXPECT_EQ(gpu.api().synchronise(stream), 0);
    std::vector<std::int64_t> ids;
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows_); ++r) ids.push_back(TestBatch::id(buffer.view(), r));
    return ids;
  }

 private:
  Signature signature_ = test_signature();
  std::int64_t rows_;
  std::vector<gpu::GpuMemory> memory_;
  std::vector<void*> columns_;
};

/// Rows with ids first.. and priorities by chance, into one table or two.
inline void insert_some(Rng& rng, std::int64_t first, std::int64_t count, std::span<Table* const> tables) {
  std::vector<std::int64_t> ids;
  std::vector<double> priorities;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back((first + i) % 1'000'000);
    priorities.push_back(rng.below(5) == 0 ? 0 : 3 * rng.uniform());
  }
  for (Table* table : tables) {
    const auto inserted = table->insert(TestBatch(ids).view(), priorities);
    ASSERT_TRUE(inserted.ok()) << inserted.error().message;
  }
}

inline void expect_same(const SampledItem& got, const SampledItem& expected) {
  ASSERT_EQ(got.key, expected.key);
  ASSERT_EQ(got.probability, expected.probability);
  ASSERT_EQ(got.priority, expected.priority);
  ASSERT_EQ(got.times_sampled, expected.times_sampled);
  ASSERT_EQ(got.table_items, expected.table_items);
}

}  // namespace troupe::replay
