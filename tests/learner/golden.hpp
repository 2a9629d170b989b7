#pragma once
// Tensors that a make_*_golden.py wrote, by name.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <troupe/messages/safetensors.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::learner {

class Golden {
 public:
  /// file: its name in tests/learner/golden. Throws when it is missing, which fails the test.
  explicit Golden(const std::string& file) {
    std::ifstream stream(source_dir() + "/tests/learner/golden/" + file, std::ios::binary);
    const std::vector<char> characters(std::istreambuf_iterator<char>(stream), {});
    if (characters.empty()) throw std::out_of_range("no golden file " + file);
    bytes_.resize(characters.size());
    std::memcpy(bytes_.data(), characters.data(), characters.size());
    tensors_ = messages::parse_safetensors(bytes_).value().tensors;
  }

  bool has(const std::string& name) const {
    return std::ranges::find(tensors_, name, &messages::TensorBytes::name) != tensors_.end();
  }
  const messages::TensorBytes& find(const std::string& name) const {
    const auto found = std::ranges::find(tensors_, name, &messages::TensorBytes::name);
    if (found == tensors_.end()) throw std::out_of_range("no golden tensor " + name);
    return *found;
  }
  /// T: as it is stored; or double for what is stored as float.
  template <typename T>
  std::vector<T> values(const std::string& name) const {
    const messages::TensorBytes& tensor = find(name);
    if constexpr (std::is_same_v<T, double>) {
      if (tensor.dtype == DType::kF32) {
        const std::vector<float> narrow = values<float>(name);
        return {narrow.begin(), narrow.end()};
      }
    }
    if (dtype_bytes(tensor.dtype) != sizeof(T)) throw std::out_of_range("golden tensor " + name + " has another type");
    std::vector<T> result(tensor.bytes.size() / sizeof(T));
    std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
    return result;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<messages::TensorBytes> tensors_;  // views of bytes_
};

}  // namespace troupe::learner
