#pragma once
// What the fuzz targets of this folder share. A target is one file, NAME_fuzz.cpp, that registers two functions.
// libfuzzer.cpp drives one target, tools/fuzz.sh builds and runs them with bounds on memory and time, so that a length
// that is only claimed and a loop over it are findings too. inputs_test.cpp takes every target through its first inputs
// and what was found once, with any compiler.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <troupe/core/check.hpp>

namespace troupe::fuzz {

using Bytes = std::span<const std::byte>;

struct Target {
  std::string name;
  void (*one_input)(Bytes);             ///< reads it as the program would and checks what holds of all that parses
  std::vector<std::string> (*seeds)();  ///< inputs to begin with, made by our own writers
};
/// Those of this program.
const std::vector<Target>& targets();
/// One of a file makes its target one of the program's.
struct Registered {
  explicit Registered(const Target& target);
};

// --- for the targets ---

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string to_string(Bytes bytes) { return std::string(text_of(bytes)); }
inline bool same(Bytes a, Bytes b) { return text_of(a) == text_of(b); }

/// The plain value at byte `at`, and another one put there: for checksums, which no fuzzer guesses. Both do nothing
/// where the bytes end before.
template <typename T>
T load(Bytes bytes, std::size_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  if (at + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}
template <typename T>
void store(std::span<std::byte> bytes, std::size_t at, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (at + sizeof(T) <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// An input taken apart from the front: the first bytes choose what is done with the rest. Zeros and nothing once it
/// has run out.
class Input {
 public:
  explicit Input(Bytes bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    const T value = load<T>(rest_, 0);
    rest_ = rest_.subspan(std::min(sizeof(T), rest_.size()));
    return value;
  }
  /// One of `count` choices.
  std::size_t choose(std::size_t count) { return take<std::uint8_t>() % count; }
  /// As many bytes as the next two say, or what is left.
  Bytes part() {
    const std::size_t size = take<std::uint16_t>();
    const Bytes taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  Bytes rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

/// The opposite of Input::part(), for seeds.
std::string part(std::string_view bytes);

/// A folder for readers that want files: under TMPDIR, removed when the program ends in good order.
const std::string& scratch_folder();
/// Writes scratch_folder()/NAME anew and returns its path.
std::string scratch_file(const std::string& name, Bytes bytes);

}  // namespace troupe::fuzz
