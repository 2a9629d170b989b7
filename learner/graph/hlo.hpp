#pragma once
// StableHLO as text, for compilers of whole programs (XLA behind a PJRT plug-in). Each op of learner/ops/ has a rule
// that makes its values out of its operands' with the functions here, so rules read like arithmetic;
// learner/engine/pjrt/ makes modules of whole graphs. Nothing here needs a compiler or a device.
//
// The text is MLIR's generic form with operations that StableHLO has had since 0.9, which every plug-in reads. It
// depends on nothing but the calls, so in one build equal graphs give equal text, by which compiled programs can be
// found again.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner::hlo {

enum class Element : std::uint8_t { kBool, kU8, kI32, kU32, kF32, kF64, kBF16 };
/// Of a real value: float32, whatever a program computes its products in.
Element element_of(DType dtype);

struct Type {
  Shape shape;
  Element element = Element::kF32;
  std::string text() const;  ///< "tensor<2x3xf32>"
  friend bool operator==(const Type&, const Type&) = default;
};

class Builder;

/// A value of the function that `to` writes.
struct Value {
  Builder* to = nullptr;
  std::uint32_t id = 0;
  Type type;
  const Shape& shape() const { return type.shape; }
  std::int64_t size(int axis) const { return type.shape[axis]; }
  int rank() const { return type.shape.rank(); }
};

using Sizes = std::vector<std::int64_t>;  ///< or axes: one number for each dimension

/// Writes the body of one function. Constants come first, each once, so they may be used anywhere.
class Builder {
 public:
  /// bf16: matrix products and convolutions take bfloat16 operands and sum in float32; else they are float32 in all
  /// digits, which devices with narrower products make of several.
  explicit Builder(bool bf16 = false) : bf16_(bf16) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  bool bf16() const { return bf16_; }
  /// What is emitted from now on belongs to this, by whose name compilers speak of it; without quotation marks.
  void set_location(std::string_view name) { location_ = name; }
  Value argument(const Type& type);
  /// All elements alike.
  Value constant(double value, const Type& type);
  Value constant(std::span<const float> values, const Shape& shape);
  /// Each element is its index along the axis.
  Value iota(const Type& type, std::int64_t axis);
  /// One operation with one result; regions stand in `inside`.
  Value emit(std::string_view name, std::span<const Value> operands, const Type& result,
             std::string_view attributes = {}, std::string_view inside = {});
  Value emit(std::string_view name, std::initializer_list<Value> operands, const Type& result,
             std::string_view attributes = {}, std::string_view inside = {}) {
    return emit(name, std::span(operands.begin(), operands.size()), result, attributes, inside);
  }

  /// What is carried after `count` times of `step`, which makes the next values out of its number, int32 from 0, and
  /// those before.
  using Step = std::function<std::vector<Value>(const Value& index, std::span<const Value> carried)>;
  std::vector<Value> loop(std::int64_t count, std::span<const Value> start, const Step& step);

  /// What `yes` makes if the bool scalar holds, else what `no` makes, of the same types. Only one of them runs, and
  /// memory that it leaves as it is is not touched: for what is large and seldom changes. select() is for the rest.
  using Branch = std::function<std::vector<Value>()>;
  std::vector<Value> choose(const Value& condition, const Branch& yes, const Branch& no);

  /// For each argument the result that gets its memory, so that a large one is not copied; -1: none.
  using Aliases = std::vector<std::int64_t>;
  /// The module with the function @main, whose arguments are those so far.
  std::string module(std::string_view name, std::span<const Value> results, const Aliases& aliases = {}) const;

 private:
  Value cached(std::string text, const Type& type);
  std::vector<Value> named_like(std::span<const Value> values);
  /// The body since `body_` was last emptied, as a region that takes and returns these.
  std::string region(std::span<const Value> arguments, std::span<const Value> returned);

  bool bf16_;
  std::uint32_t count_ = 0;
  std::vector<Value> arguments_;
  std::map<std::string, Value> known_;  ///< constants by their text
  std::string constants_, body_, location_;
};

/// What the rule of an op works on. Shapes are whole ones: a program of this kind has one stripe.
struct Node {
  Builder& to;
  std::span<const Value> in;
  std::span<const ValueSpec> in_specs, out_specs;
  const Attr& attr;
  std::int64_t batch = 0;  ///< rows of the graph
  Value rows;              ///< int32 scalar: how many of them are data, see ValidRows
  /// int32 scalar: where the rows of the replica that runs begin among those of all. Without a builder where only one
  /// does: then the graph knows it (Graph::first_row).
  Value first_row = {};
};

/// What the rule of a joint works on, where all replicas of a group are one program.
struct Joint {
  Value in;            ///< the whole value
  Value rows;          ///< int32 scalar, of this replica
  std::int64_t batch;  ///< rows of the graph
  Value taken, given;  ///< of the function for gradients: what the other one took and gave; else without a builder
};

// ---- element by element; operands of one type, or a number in the place of one ----

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value maximum(const Value& a, const Value& b);  ///< NaN where either is one
Value minimum(const Value& a, const Value& b);
/// The number as a value of the type of `like`.
Value filled(const Value& like, double value);
inline Value operator+(const Value& a, double b) { return a + filled(a, b); }
inline Value operator-(const Value& a, double b) { return a - filled(a, b); }
inline Value operator-(double a, const Value& b) { return filled(b, a) - b; }
inline Value operator*(double a, const Value& b) { return a == 1 ? b : filled(b, a) * b; }
inline Value operator/(double a, const Value& b) { return filled(b, a) / b; }
inline Value maximum(const Value& a, double b) { return maximum(a, filled(a, b)); }
inline Value minimum(const Value& a, double b) { return minimum(a, filled(a, b)); }

/// "exponential", "log", "sqrt", ...: an operation with one operand, by StableHLO's name.
Value unary(std::string_view name, const Value& x);
/// "and", "shift_left", ...
Value binary(std::string_view name, const Value& a, const Value& b);

// Bool values, false where either operand is NaN (is_different: true).
Value is_greater(const Value& a, const Value& b);
Value is_at_least(const Value& a, const Value& b);
Value is_equal(const Value& a, const Value& b);
Value is_different(const Value& a, const Value& b);
inline Value is_greater(const Value& a, double b) { return is_greater(a, filled(a, b)); }
inline Value is_at_least(const Value& a, double b) { return is_at_least(a, filled(a, b)); }
inline Value is_equal(const Value& a, double b) { return is_equal(a, filled(a, b)); }
inline Value is_less(const Value& a, const Value& b) { return is_greater(b, a); }
inline Value is_less(const Value& a, double b) { return is_greater(filled(a, b), a); }
inline Value is_nan(const Value& x) { return is_different(x, x); }
Value is_finite(const Value& x);
inline Value operator&(const Value& a, const Value& b) { return binary("and", a, b); }
inline Value operator|(const Value& a, const Value& b) { return binary("or", a, b); }
inline Value operator!(const Value& x) { return unary("not", x); }
Value select(const Value& condition, const Value& yes, const Value& no);
inline Value select(const Value& condition, const Value& yes, double no) {
  return select(condition, yes, filled(yes, no));
}
inline Value select(const Value& condition, double yes, const Value& no) {
  return select(condition, filled(no, yes), no);
}
/// Towards zero where a whole number is made of a real one.
Value convert(const Value& x, Element element);
/// The same bits.
Value bits_as(const Value& x, Element element);

// ---- shapes ----

Value reshape(const Value& x, const Shape& shape);
/// Axis i of x is axis axes[i] of the result; along the others, and where x has 1, it repeats.
Value broadcast(const Value& x, const Shape& shape, const Sizes& axes);
/// Axis i of the result is axis axes[i] of x.
Value transpose(const Value& x, const Sizes& axes);
Value reverse(const Value& x, const Sizes& axes);
/// strides: empty for ones.
Value slice(const Value& x, const Sizes& begin, const Sizes& end, const Sizes& strides = {});
/// Rows in front, behind and between; negative numbers take rows away.
struct Padding {
  Sizes low, high, between = {};  ///< `between` empty: none
};
Value pad(const Value& x, double value, const Padding& padding);
Value concat(std::span<const Value> parts, std::int64_t axis);

/// x[index], and x with that row replaced; index: an int32 scalar, taken to be within x.
Value row_of(const Value& x, const Value& index);
Value with_row(const Value& x, const Value& index, const Value& row);

// ---- sums ----

/// The axes are gone from the result.
Value sum(const Value& x, const Sizes& axes);
Value largest(const Value& x, const Sizes& axes);
/// Sums over windows, without padding.
Value sum_windows(const Value& x, const Sizes& window, const Sizes& strides);

/// Which axes of a product's operands are paired: `batch` ones stay, and come first, `sum` ones are summed over; behind
/// them come those that are left of a, then of b.
struct DotAxes {
  Sizes a_sum, b_sum, a_batch = {}, b_batch = {};
};
/// kNarrow: as Builder::bf16() says. kExact: float32 in any program.
enum class Product : std::uint8_t { kNarrow, kExact };
Value dot(const Value& a, const Value& b, const DotAxes& axes, Product product);

/// dimensions: as StableHLO writes them, "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]". Two axes of space.
struct Convolution {
  std::string_view dimensions;
  Sizes strides = {1, 1}, x_dilation = {1, 1}, kernel_dilation = {1, 1};
  Sizes low = {0, 0}, high = {0, 0};  ///< padding
  bool mirrored = false;              ///< the kernel
};
Value convolve(const Value& x, const Value& kernel, const Convolution& of, const Shape& result);

// ---- between the replicas of a program, 0 to replicas - 1, each of which has an x of this type ----

Value sum_of_replicas(const Value& x, std::int64_t replicas);
Value largest_of_replicas(const Value& x, std::int64_t replicas);
Value least_of_replicas(const Value& x, std::int64_t replicas);
/// [replicas, shape of x].
Value rows_of_replicas(const Value& x, std::int64_t replicas);
/// x: [replicas, ...]. Of its sum the row of each replica's number.
Value row_of_sum(const Value& x, std::int64_t replicas);
/// Which replica runs, an int32 scalar.
Value replica_number(Builder& to);

// ---- lookups; indices are int32 [..., k], and each must be within x ----

/// index[..., i] is the place along axis axes[i] of x, whose other axes follow those of the index in the result.
Value take(const Value& x, const Value& index, const Sizes& axes);
/// The gradient of that: zeros of `shape` to which what was taken is added where it came from. An index outside adds
/// nothing.
Value give_back(const Value& taken, const Value& index, const Sizes& axes, const Shape& shape);

}  // namespace troupe::learner::hlo
