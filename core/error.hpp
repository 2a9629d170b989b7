#pragma once
// Errors as values. Everything that can fail for a reason outside of the program (input, files, peers, time) returns
// Result<T>; broken invariants go through core/check.hpp. Used by every folder; exceptions do not cross a folder.
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace troupe {

/// What kind of failure it was, for callers that act on it; the message is for people.
enum class Code {
  kInvalidArgument,   ///< the caller passed something that can never work
  kShapeMismatch,     ///< tensors, specs or layouts disagree
  kNotFound,          ///< a name, file or key does not exist
  kAlreadyExists,     ///< a name or file exists and must not
  kOutOfRange,        ///< an index or value lies outside of its bounds
  kDeadlineExceeded,  ///< the wait ended before the event came
  kUnavailable,       ///< cannot be done now (empty table, dead peer); trying again may work
  kCancelled,         ///< somebody asked for the work to stop
  kCorrupt,           ///< stored or received bytes fail their checks
  kIo,                ///< the operating system refused a read or write
  kInternal,          ///< a third-party library failed in a way that it should not
  kLost,  ///< a device is gone for this process, and with it what was there; a new process may have it again
};
inline constexpr Code kLastCode = Code::kLost;  ///< for whoever reads codes from bytes

/// The stable name of a code, e.g. "shape_mismatch".
std::string_view to_string(Code code);

/// message says what, where, got, expected: `sample: batch_count 64 > item_count 12 in table "main"`.
struct Error {
  Code code = Code::kInternal;
  std::string message;
};

/// Either a T or an Error. Value access on an error is a bug and aborts (see result_abort).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit, so `return value;` works
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit, so `return error;` works

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() &;
  const T& value() const&;
  T&& value() &&;
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return error_; }
  void value() const;  ///< Aborts when this is an error: for calls whose failure would be a bug.

 private:
  bool failed_ = false;
  Error error_;
};

using Status = Result<void>;

/// Prints the error and aborts: somebody read the value of a failed Result.
[[noreturn]] void result_abort(const Error& error);

template <typename T>
T& Result<T>::value() & {
  if (!ok()) result_abort(error());
  return *std::get_if<0>(&state_);
}
template <typename T>
const T& Result<T>::value() const& {
  if (!ok()) result_abort(error());
  return *std::get_if<0>(&state_);
}
template <typename T>
T&& Result<T>::value() && {
  if (!ok()) result_abort(error());
  return std::move(*std::get_if<0>(&state_));
}

}  // namespace troupe

/// Returns the error of a Status or Result to the caller, or goes on.
#define TROUPE_TRY(expression)                                \
  do {                                                        \
    if (auto try_status_ = (expression); !try_status_.ok()) { \
      return try_status_.error();                             \
    }                                                         \
  } while (false)

#define TROUPE_CONCAT_INNER(a, b) a##b
#define TROUPE_CONCAT(a, b) TROUPE_CONCAT_INNER(a, b)

/// TROUPE_ASSIGN(auto table, Table::make(options)): declares `table`, or returns the error to the caller.
#define TROUPE_ASSIGN(declaration, expression)              \
  auto TROUPE_CONCAT(try_result_, __LINE__) = (expression); \
  if (!TROUPE_CONCAT(try_result_, __LINE__).ok()) {         \
    return TROUPE_CONCAT(try_result_, __LINE__).error();    \
  }                                                         \
  declaration = std::move(TROUPE_CONCAT(try_result_, __LINE__)).value()
