#include <troupe/data/cifar10.hpp>

#include <fmt/format.h>

#include <string>
#include <vector>

#include <troupe/data/detail/file.hpp>

namespace troupe::data {
namespace {

constexpr std::int64_t kClasses = 10;
constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kRecord = 1 + 3 * kPlane;
constexpr std::uint64_t kBatchBytesMax = 1ULL << 30;

/// A record is a label and three planes, red first.
Status append(const std::filesystem::path& path, Images& images) {
  const auto corrupt = [&](std::string what) {
    return Error{Code::kCorrupt, fmt::format("{}: {}", path.string(), what)};
  };
  TROUPE_ASSIGN(const detail::File file, detail::File::open(path));
  if (file.bytes() == 0 || file.bytes() % kRecord != 0 || file.bytes() > kBatchBytesMax) {
    return corrupt(fmt::format("{} bytes, expected a multiple of {}, one for each image, and at most {}", file.bytes(),
                               kRecord, kBatchBytesMax));
  }
  std::vector<std::uint8_t> bytes(file.bytes());
  TROUPE_TRY(file.read_at(0, bytes));
  const std::size_t count = bytes.size() / kRecord;
  images.pixels.reserve(images.pixels.size() + count * 3 * kPlane);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* const record = &bytes[i * kRecord];
    if (record[0] >= kClasses) {
      return corrupt(fmt::format("label {} of image {}, expected 0 .. {}", record[0], i, kClasses - 1));
    }
    images.labels.push_back(record[0]);
    for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
      for (std::size_t c = 0; c < 3; ++c) images.pixels.push_back(record[1 + c * kPlane + pixel]);
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Images>> load_cifar10(Split split, const std::filesystem::path& directory) {
  auto images = std::make_shared<Images>();
  images->height = images->width = kSide;
  images->channels = 3;
  images->class_count = kClasses;
  if (split == Split::kTest) {
    TROUPE_TRY(append(directory / "test_batch.bin", *images));
  } else {
    for (int batch = 1; batch <= 5; ++batch) {
      TROUPE_TRY(append(directory / fmt::format("data_batch_{}.bin", batch), *images));
    }
  }
  return std::shared_ptr<const Images>(std::move(images));
}

}  // namespace troupe::data
