// Safetensors files, ours and other programs'.
#include <troupe/messages/safetensors.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {

using namespace messages;
namespace {

void one_input(Bytes input) {
  Input choice(input);
  std::vector<std::byte> file(choice.rest().begin(), choice.rest().end());
  if (choice.choose(2) == 1) {  // the header ends where its last brace is
    file.assign(choice.rest().begin(), choice.rest().end());
    const std::size_t brace = text_of(file).rfind('}');
    if (brace != std::string_view::npos && brace >= 8) store(file, 0, static_cast<std::uint64_t>(brace + 1 - 8));
  }
  const auto got = parse_safetensors(file);
  if (!got.ok()) return;
  std::size_t bytes = 0;
  for (const TensorBytes& tensor : got->tensors) bytes += tensor.bytes.size();
  TROUPE_CHECK(bytes <= file.size(), "tensors of {} bytes in a file of {}", bytes, file.size());
  const auto written = encode_safetensors(got->tensors, got->metadata);
  TROUPE_CHECK(written.ok(), "what was read is not written: {}", written.error().message);
  const auto again = parse_safetensors(*written);
  TROUPE_CHECK(again.ok() && again->tensors.size() == got->tensors.size() && again->metadata == got->metadata,
               "a file of {} tensors changed", got->tensors.size());
}

std::vector<std::string> seeds() {
  std::vector<std::byte> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i);
  const Bytes bytes = values;
  const std::vector<TensorBytes> tensors = {{"critic/parameters", DType::kF32, {2, 3}, bytes},
                                            {"scalar", DType::kI64, {}, bytes.first(8)},
                                            {"empty", DType::kBF16, {0, 4}, bytes.first(0)},
                                            {"pixels", DType::kU8, {5}, bytes.first(5)}};
  const std::string whole = to_string(encode_safetensors(tensors, {{"format", "pt"}}).value());
  const std::string none = to_string(encode_safetensors({}, {}).value());
  return {std::string(1, '\0') + whole, "\1" + whole, "\1" + none};
}

const Registered registered({"safetensors", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
