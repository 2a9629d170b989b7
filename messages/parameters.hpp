#pragma once
// What a learner publishes and actors act with: one flat buffer of parameters of one version. Of a parameter server,
// whose shards each hold a part, workers get a piece of it from each. Schema: parameters.capnp.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct ParametersInfo {
  std::int64_t version = 0;       ///< learner step that produced them; a parameter store's versions only grow
  std::uint64_t layout_hash = 0;  ///< of names, shapes and offsets: a reader with another network refuses them
  std::uint64_t fingerprint = 0;  ///< of the values, as the learner computes it: equal values, equal number
  DType dtype = DType::kF32;
};

/// Elements of the flat buffer.
struct ParametersRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  friend bool operator==(const ParametersRange&, const ParametersRange&) = default;
};

/// Which part of the flat buffer a message holds.
struct ParametersPiece {
  std::uint32_t index = 0;              ///< 0 .. count-1
  std::uint32_t count = 1;              ///< pieces of a version; 1: the whole
  std::int64_t elements = 0;            ///< of the whole buffer
  std::vector<ParametersRange> ranges;  ///< ascending, apart; the data is these, one behind the other

  std::int64_t own_elements() const;
};

inline constexpr std::uint32_t kMaxParametersPieces = 1024;

/// Validated parameters. Holds its frame.
class ParametersView {
 public:
  const ParametersInfo& info() const;
  const ParametersPiece& piece() const;
  /// The piece's elements. A whole number of elements; starts at a multiple of 8 bytes (of 64 when a ParametersBuilder
  /// wrote it).
  std::span<const std::byte> data() const;
  /// data() as float32. Errors: kInvalidArgument when it is of another type.
  Result<std::span<const float>> floats() const;
  const Frame& frame() const { return frame_; }

 private:
  friend Result<ParametersView> read_parameters(const Frame&);
  ParametersView(Frame frame, const Parsed* parsed) : frame_(std::move(frame)), parsed_(parsed) {}
  Frame frame_;
  const Parsed* parsed_;
};

/// O(1) for a frame that was built or already read in this process; otherwise validates all of it once (not that the
/// values are finite: the learner that produced them checks its own).
/// Errors: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<ParametersView> read_parameters(const Frame& frame);

/// Whether so many fit one message, of a whole network or of a piece of one. Errors: kInvalidArgument.
Status check_parameters(DType dtype, std::int64_t elements);

class ParametersBuilder {
 public:
  /// Room for a whole buffer of `elements` elements of `dtype`. Errors: those of check_parameters(); the pool's.
  static Result<ParametersBuilder> make(FramePool& pool, DType dtype, std::int64_t elements);
  /// Room for one piece. Errors: the same; kInvalidArgument when the piece is none.
  static Result<ParametersBuilder> make(FramePool& pool, DType dtype, const ParametersPiece& piece);
  ParametersBuilder(ParametersBuilder&&) noexcept;
  ParametersBuilder& operator=(ParametersBuilder&&) noexcept;
  ~ParametersBuilder();

  /// To be written completely by the caller; not cleared. 64-byte-aligned.
  std::span<std::byte> data();
  /// info.dtype must be the builder's.
  Frame finish(const ParametersInfo& info) &&;

 private:
  struct Impl;
  explicit ParametersBuilder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::messages
