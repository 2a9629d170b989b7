// Data sets as files: TFRecords of tf.train.Examples, IDX in gzip, CIFAR-10's binary files.
#include <filesystem>

#include <zlib.h>

#include <troupe/core/crc32c.hpp>
#include <troupe/core/tf_record.hpp>
#include <troupe/data/cifar10.hpp>
#include <troupe/data/idx.hpp>
#include <troupe/data/tf_example.hpp>
#include <troupe/data/tfrecords.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

using namespace data;

std::span<const std::uint8_t> unsigned_bytes(Bytes bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// The checksums of records, as far as their lengths go.
std::string repaired(Bytes file) {
  std::vector<std::byte> bytes(file.begin(), file.end());
  for (std::span<std::byte> left = bytes; left.size() >= 16;) {
    store(left, 8, masked_crc32c(crc32c(left.first(8))));
    const auto size = load<std::uint64_t>(left, 0);
    if (size > left.size() - 16) break;
    store(left, 12 + size, masked_crc32c(crc32c(left.subspan(12, size))));
    left = left.subspan(16 + size);
  }
  return to_string(bytes);
}

void records(Bytes bytes, bool skip_damaged) {
  scratch_file("train-00000-of-00001", bytes);
  const auto set = TfRecords::open(scratch_folder(), Split::kTrain, {.classes = 10, .skip_damaged = skip_damaged});
  if (!set.ok()) return;
  Sample sample;
  for (std::int64_t i = 0; i < (*set)->count(); ++i) {
    const Status read = (*set)->read(i, sample);
    if (read.ok()) TROUPE_CHECK(sample.label >= 0 && sample.label < 10, "label {}", sample.label);
  }
}

void example(Bytes bytes) {
  const auto got = parse_image_example(unsigned_bytes(bytes));
  if (got.ok()) TROUPE_CHECK(got->encoded.size() <= bytes.size(), "an image of {} bytes", got->encoded.size());
}

void idx(Bytes bytes) {
  const auto got = read_idx(scratch_file("images.gz", bytes));
  if (got.ok()) {
    TROUPE_CHECK(got->shape.elements() == static_cast<std::int64_t>(got->values.size()), "{}", got->shape.to_string());
  }
}

std::string gzip(Bytes bytes) {
  z_stream stream{};
  constexpr int kGzip = 16;
  TROUPE_CHECK(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  TROUPE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void cifar(Input input) {
  // A record has 3,073 bytes: what the input says is put at its front, and the rest is one grey.
  std::string bytes = to_string(input.part());
  const std::size_t records = 1 + input.choose(3);
  if (input.choose(4) != 0) bytes.resize(records * 3073, 'g');
  scratch_file("test_batch.bin", bytes_of(bytes));
  const auto set = load_cifar10(Split::kTest, scratch_folder());
  if (set.ok()) TROUPE_CHECK((*set)->count() == static_cast<std::int64_t>(bytes.size() / 3073), "{}", (*set)->count());
}

std::string varint_field(int number, std::string_view bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())}.append(bytes);
}

std::string sample_example() {
  const std::string label = varint_field(3, std::string{8, 4});
  const auto feature = [](std::string_view name, const std::string& value) {
    return varint_field(1, varint_field(1, name) + varint_field(2, value));
  };
  return varint_field(
      1, feature("image/encoded", varint_field(1, varint_field(1, "jpeg"))) + feature("image/class/label", label));
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(6)) {
    case 0:
      return records(choice.rest(), true);
    case 1:
      return records(bytes_of(repaired(choice.rest())), choice.choose(2) == 0);
    case 2:
      return example(choice.rest());
    case 3:
      return idx(choice.rest());
    case 4:
      return idx(bytes_of(gzip(choice.rest())));
    default:
      return cifar(choice);
  }
}

std::vector<std::string> seeds() {
  const std::string records = tf_record(sample_example()) + tf_record("");
  const std::string header("\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2abcd", 20);
  return {std::string(1, '\0') + records, "\1" + records, "\2" + sample_example(),
          "\3" + gzip(bytes_of(header)),  "\4" + header,  "\5" + part("\4") + "\1\1"};
}

const Registered registered({"data_files", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
