#pragma once
// What a worker of a parameter server sends to a shard of it, its gradient of the shard's parameters, and what it is
// answered; and how parameters are asked for (they come as messages/parameters.hpp). A table of rows of which a batch
// touches few, an embedding, travels as these rows. Values travel as float32 or bfloat16 and are always finite: the
// builder says when they are not, the reader refuses them, so that a shard never applies a part of a bad gradient.
// Schema: gradient.capnp.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct GradientInfo {
  std::uint32_t worker = 0;      ///< index in its role
  std::int64_t version = 0;      ///< of the shard's parameters that it was computed at; >= 0
  double samples = 1;            ///< rows of the batch, its weight in a mean; finite and > 0
  std::uint64_t model_hash = 0;  ///< of all groups' names, shapes and offsets: another model's are refused
  std::uint32_t piece = 0;       ///< which shard's, 0 .. pieces-1
  std::uint32_t pieces = 1;
};

/// Rows of one table whose gradient is not zero.
struct SparseRows {
  std::uint32_t table = 0;              ///< number of the table in the model
  std::uint32_t columns = 1;            ///< elements of a row
  std::span<const std::uint32_t> rows;  ///< of the whole table; ascending
  std::span<const std::byte> values;    ///< rows x columns; empty in what a builder is made of
};

/// A validated gradient. Holds its frame.
class GradientView {
 public:
  const GradientInfo& info() const;
  DType dtype() const;  ///< kF32 or kBF16, of all values
  /// The piece without its sparse tables. Starts at a multiple of 8 bytes.
  std::span<const std::byte> dense() const;
  std::span<const SparseRows> sparse() const;  ///< by table, ascending
  const Frame& frame() const { return frame_; }

 private:
  friend Result<GradientView> read_gradient(const Frame&);
  GradientView(Frame frame, const Parsed* parsed) : frame_(std::move(frame)), parsed_(parsed) {}
  Frame frame_;
  const Parsed* parsed_;
};

/// O(1) for a frame that was built or already read in this process; otherwise validates all of it once, values too.
/// Errors: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its bounds).
Result<GradientView> read_gradient(const Frame& frame);

class GradientBuilder {
 public:
  /// Room for `dense` elements and the values of these rows. Errors: the pool's; kInvalidArgument when dtype is neither
  /// float32 nor bfloat16, or tables or rows do not ascend.
  static Result<GradientBuilder> make(FramePool& pool, DType dtype, std::int64_t dense,
                                      std::span<const SparseRows> sparse = {});
  GradientBuilder(GradientBuilder&&) noexcept;
  GradientBuilder& operator=(GradientBuilder&&) noexcept;
  ~GradientBuilder();

  /// Appends values, times `scale`, to the dense part, or to those of sparse[table]. One pass over memory. False when
  /// a value is not finite as it would travel: then the gradient must not be sent.
  [[nodiscard]] bool write(std::span<const float> values, float scale = 1);
  [[nodiscard]] bool write_rows(std::size_t table, std::span<const float> values, float scale = 1);
  /// All has been written, and was finite.
  Frame finish(const GradientInfo& info) &&;

 private:
  struct Impl;
  explicit GradientBuilder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

enum class GradientOutcome : std::uint8_t {
  kApplied = 0,   ///< the parameters have changed
  kTaken = 1,     ///< waits for the others of its step
  kStale = 2,     ///< too old: dropped
  kUnknown = 3,   ///< of a version that this shard does not know, since it was restarted: dropped
  kFinished = 4,  ///< the last update was made before: dropped
};
/// "applied", "taken", "stale", "unknown", "finished".
std::string_view to_string(GradientOutcome outcome);

struct GradientAnswer {
  GradientOutcome outcome = GradientOutcome::kApplied;
  std::int64_t version = 0;  ///< of the shard, after it; >= 0
};

struct ParametersPull {
  std::uint32_t worker = 0;   ///< index in its role
  std::int64_t at_least = 0;  ///< the version to wait for; >= 0
  std::uint64_t model_hash = 0;
};

/// Errors of both: the pool's; kInvalidArgument naming the field that is out of its bounds.
Result<Frame> make_gradient_answer(FramePool& pool, const GradientAnswer& answer);
Result<Frame> make_parameters_pull(FramePool& pool, const ParametersPull& pull);

/// Errors of both: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its
/// bounds).
Result<GradientAnswer> read_gradient_answer(const Frame& frame);
Result<ParametersPull> read_parameters_pull(const Frame& frame);

/// bfloat16 bits as float32, exactly.
void from_bf16(std::span<const std::uint16_t> from, std::span<float> to);

}  // namespace troupe::messages
