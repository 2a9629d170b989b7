#include <troupe/messages/safetensors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace troupe::messages {
namespace {

using nlohmann::json;

constexpr std::size_t kSizeField = 8;
constexpr std::size_t kMaxNameBytes = 256;
/// More elements than any file holds; products are cut off here, so that they cannot overflow.
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;

constexpr std::array<std::pair<DType, std::string_view>, 6> kDTypeNames = {{{DType::kF32, "F32"},
                                                                            {DType::kF64, "F64"},
                                                                            {DType::kBF16, "BF16"},
                                                                            {DType::kI32, "I32"},
                                                                            {DType::kI64, "I64"},
                                                                            {DType::kU8, "U8"}}};

Error malformed(std::string message) { return Error{Code::kCorrupt, "safetensors: " + std::move(message)}; }

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "__metadata__" &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// Parses JSON strictly: besides what the parser checks, no key twice in an object and no depth beyond the format's.
Result<json> parse_header(std::span<const std::byte> text) {
  constexpr int kMaxDepth = 3;  // file, tensor, list of numbers
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (depth > kMaxDepth && problem.empty()) problem = "nested deeper than the format allows";
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && problem.empty()) {
      problem = fmt::format("the key \"{}\" comes twice", value.get<std::string>());
    }
    return problem.empty();  // what is refused is not stored
  };
  const char* begin = reinterpret_cast<const char*>(text.data());
  json header = json::parse(begin, begin + text.size(), watch, /*allow_exceptions=*/false);
  if (!problem.empty()) return malformed("header: " + problem);
  if (header.is_discarded() || !header.is_object()) return malformed("the header is not a JSON object");
  return header;
}

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Result<std::vector<std::uint64_t>> unsigned_list(const json& entry, const char* key, const std::string& where) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return malformed(fmt::format("{}: no list \"{}\"", where, key));
  std::vector<std::uint64_t> numbers;
  for (const json& number : *found) {
    if (!number.is_number_unsigned()) {
      return malformed(fmt::format("{}: \"{}\" holds something else than whole numbers >= 0", where, key));
    }
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

/// One tensor of the header; `range` counts from the end of the header.
Status read_entry(const std::string& name, const json& entry, TensorBytes& tensor, Range& range) {
  const std::string where = fmt::format("tensor \"{}\"", name);
  if (!good_name(name)) return malformed(fmt::format("a tensor's name is not 1..{} printable bytes", kMaxNameBytes));
  if (!entry.is_object() || entry.size() != 3) {
    return malformed(where + ": expected exactly dtype, shape and data_offsets");
  }
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return malformed(where + ": no dtype");
  const auto known =
      std::ranges::find(kDTypeNames, dtype->get<std::string>(), &std::pair<DType, std::string_view>::second);
  if (known == kDTypeNames.end()) {
    return malformed(fmt::format("{}: got dtype {}, expected F32, F64, BF16, I32, I64 or U8", where, dtype->dump()));
  }
  TROUPE_ASSIGN(const auto dims, unsigned_list(entry, "shape", where));
  if (dims.size() > Shape::kMaxRank) {
    return malformed(fmt::format("{}: got rank {}, expected at most {}", where, dims.size(), Shape::kMaxRank));
  }
  // The bound holds without the zeros too, so that no order of multiplication overflows.
  std::uint64_t elements = 1;
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 0 && dims[i] > kMaxElements / elements) return malformed(where + ": the shape is too large");
    elements *= std::max<std::uint64_t>(dims[i], 1);
    sizes[i] = static_cast<std::int64_t>(dims[i]);
  }
  TROUPE_ASSIGN(const auto offsets, unsigned_list(entry, "data_offsets", where));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return malformed(where + ": data_offsets are not a begin and an end");
  }
  range = {offsets[0], offsets[1]};
  tensor.name = name;
  tensor.dtype = known->first;
  tensor.shape = Shape(std::span<const std::int64_t>(sizes).first(dims.size()));
  const std::uint64_t expected = static_cast<std::uint64_t>(tensor.shape.elements()) * dtype_bytes(tensor.dtype);
  if (range.end - range.begin != expected) {
    return malformed(fmt::format("{}: data_offsets span {} bytes, expected {} for {}{}", where, range.end - range.begin,
                                 expected, to_string(tensor.dtype), tensor.shape.to_string()));
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> safetensors_header(std::span<const TensorBytes> tensors,
                                                  const SafetensorsMetadata& metadata,
                                                  std::vector<std::size_t>& order) {
  if (tensors.size() > kMaxSafetensorsTensors) {
    return Error{Code::kInvalidArgument, fmt::format("safetensors: got {} tensors, expected at most {}", tensors.size(),
                                                     kMaxSafetensorsTensors)};
  }
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const std::size_t wide_a = dtype_bytes(tensors[a].dtype), wide_b = dtype_bytes(tensors[b].dtype);
    return wide_a != wide_b ? wide_a > wide_b : tensors[a].name < tensors[b].name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  std::set<std::string_view> names;
  for (std::size_t index : order) {
    const TensorBytes& tensor = tensors[index];
    const std::size_t bytes = static_cast<std::size_t>(tensor.shape.elements()) * dtype_bytes(tensor.dtype);
    if (!good_name(tensor.name) || !names.insert(tensor.name).second) {
      return Error{Code::kInvalidArgument,
                   fmt::format("safetensors: the name \"{}\" is not 1..{} printable bytes, or comes twice", tensor.name,
                               kMaxNameBytes)};
    }
    if (tensor.bytes.size() != bytes) {
      return Error{Code::kInvalidArgument,
                   fmt::format("safetensors: tensor \"{}\" has {} bytes, expected {} for {}{}", tensor.name,
                               tensor.bytes.size(), bytes, to_string(tensor.dtype), tensor.shape.to_string())};
    }
    const auto known = std::ranges::find(kDTypeNames, tensor.dtype, &std::pair<DType, std::string_view>::first);
    header[tensor.name] = {{"dtype", known->second},
                           {"shape", std::vector<std::int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end())},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& exception) {  // the only cause: a name or metadata that is not UTF-8
    return Error{Code::kInvalidArgument, fmt::format("safetensors: {}", exception.what())};
  }
  text.resize((text.size() + kSizeField - 1) / kSizeField * kSizeField, ' ');  // the format pads with spaces
  if (text.size() > kMaxSafetensorsHeader) {
    return Error{Code::kInvalidArgument, fmt::format("safetensors: a header of {} bytes, at most {} allowed",
                                                     text.size(), kMaxSafetensorsHeader)};
  }
  const std::uint64_t size = text.size();
  std::vector<std::byte> result(kSizeField + text.size());
  std::memcpy(result.data(), &size, kSizeField);
  std::memcpy(result.data() + kSizeField, text.data(), text.size());
  return result;
}

Result<std::vector<std::byte>> encode_safetensors(std::span<const TensorBytes> tensors,
                                                  const SafetensorsMetadata& metadata) {
  std::vector<std::size_t> order;
  TROUPE_ASSIGN(std::vector<std::byte> file, safetensors_header(tensors, metadata, order));
  for (std::size_t index : order) file.insert(file.end(), tensors[index].bytes.begin(), tensors[index].bytes.end());
  return file;
}

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> file) {
  std::uint64_t header_bytes = 0;
  if (file.size() < kSizeField) return malformed(fmt::format("got {} bytes, expected at least 8", file.size()));
  std::memcpy(&header_bytes, file.data(), kSizeField);
  if (header_bytes > kMaxSafetensorsHeader) {
    return malformed(fmt::format("got a header of {} bytes, expected at most {}", header_bytes, kMaxSafetensorsHeader));
  }
  if (header_bytes > file.size() - kSizeField) {
    return malformed(fmt::format("got a header of {} bytes in a file of {}", header_bytes, file.size()));
  }
  TROUPE_ASSIGN(const json header, parse_header(file.subspan(kSizeField, header_bytes)));
  const std::span<const std::byte> data = file.subspan(kSizeField + header_bytes);
  if (header.size() > kMaxSafetensorsTensors + 1) {
    return malformed(fmt::format("got {} tensors, expected at most {}", header.size(), kMaxSafetensorsTensors));
  }

  SafetensorsFile result;
  std::vector<std::pair<Range, TensorBytes>> entries;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return malformed("__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return malformed(fmt::format("__metadata__: \"{}\" is not a string", key));
        result.metadata.emplace(key, value.get<std::string>());
      }
      continue;
    }
    auto& [range, tensor] = entries.emplace_back();
    TROUPE_TRY(read_entry(name, entry, tensor, range));
  }
  std::ranges::sort(entries, {}, [](const auto& entry) { return std::pair(entry.first.begin, entry.first.end); });
  std::uint64_t end = 0;
  for (auto& [range, tensor] : entries) {
    if (range.begin != end) {
      return malformed(fmt::format("tensor \"{}\" begins at byte {}, expected {}: ranges overlap or leave a hole",
                                   tensor.name, range.begin, end));
    }
    if (range.end > data.size()) {
      return malformed(fmt::format("tensor \"{}\" ends at byte {} of {}", tensor.name, range.end, data.size()));
    }
    tensor.bytes = data.subspan(range.begin, range.end - range.begin);
    end = range.end;
    result.tensors.push_back(std::move(tensor));
  }
  if (end != data.size()) return malformed(fmt::format("{} bytes follow the last tensor", data.size() - end));
  return result;
}

}  // namespace troupe::messages
