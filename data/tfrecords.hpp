#pragma once
// ImageNet as TensorFlow keeps it: shards train-00000-of-01024 .. and validation-00000-of-00128 .., each a file of
// records (length, masked CRC-32C of the length, data, masked CRC-32C of the data) that hold a tf.train.Example with an
// image and a label from 1 on. Read at random, by an index of where records lie.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/data/dataset.hpp>

namespace troupe::data {

struct TfRecordOptions {
  std::int64_t classes = 1000;  ///< labels in files are 1 .. classes, in samples 0 .. classes - 1
  /// Where the header of a record is damaged, nobody knows where the next one begins: leave the rest of that shard out,
  /// with a warning, and count it as one damaged place; false: an error.
  bool skip_damaged = false;
};

class TfRecords final : public Dataset {
 public:
  /// Finds the shards of a split and reads the header of every record: 12 bytes each, so minutes where a disk is slow
  /// and records are millions. Errors, naming file and record: kNotFound (no shard, or one of them missing), kIo,
  /// kInvalidArgument (no regular file), kCorrupt (as above; no records at all).
  static Result<std::shared_ptr<const TfRecords>> open(const std::filesystem::path& directory, Split split,
                                                       const TfRecordOptions& options);

  /// Only whether all shards of a split are there, which takes no time. Errors: as of open(), but for kCorrupt.
  static Status find(const std::filesystem::path& directory, Split split);

  std::int64_t count() const override { return std::ssize(records_); }
  std::int64_t classes() const override { return options_.classes; }
  Shape shape() const override { return {}; }
  Status read(std::int64_t index, Sample& sample) const override;
  std::string name(std::int64_t index) const override;
  std::int64_t damaged() const override { return damaged_; }

  /// Longer records are damaged ones.
  static constexpr std::uint64_t kRecordBytesMax = 1ULL << 26;

 private:
  struct Record {
    std::uint64_t offset;  // of its data
    std::uint32_t bytes;
    std::uint32_t shard;
  };
  Status index(std::uint32_t shard);

  TfRecordOptions options_;
  std::vector<std::filesystem::path> shards_;
  std::vector<std::int64_t> first_;  // record of each shard
  std::vector<Record> records_;
  std::int64_t damaged_ = 0;
};

}  // namespace troupe::data
