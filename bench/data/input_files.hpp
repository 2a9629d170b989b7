#pragma once
// Files of images for the input bench, the same ones every time: JPEGs of ImageNet's usual size and weight, as a folder
// (data/image_folder) and as TFRecords (data/tfrecords). The rivals read the folder.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>

#include <troupe/core/check.hpp>
#include <troupe/core/proto_writer.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/tf_record.hpp>
#include <troupe/core/resize.hpp>

namespace troupe::data {

inline constexpr std::int64_t kFileHeight = 375, kFileWidth = 500, kFiles = 256, kFileClasses = 8, kFileShards = 4;

/// Detail of every scale, the finer the weaker, as photographs have it: some 90 KB as a JPEG, as ImageNet's are.
inline Surface photograph(std::uint64_t seed) {
  constexpr int kScales = 8;
  constexpr double kContrast = 3, kCoarser = 1.4;  // by which a scale is stronger than that of half its size
  const double weights = (std::pow(kCoarser, kScales) - 1) / (kCoarser - 1);
  Rng rng(seed);
  Resizer resizer;
  std::vector<float> sum(static_cast<std::size_t>(kFileHeight * kFileWidth * 3)), one(sum.size());
  for (int scale = 0; scale < kScales; ++scale) {
    Surface coarse{.height = (kFileHeight >> scale) + 1, .width = (kFileWidth >> scale) + 1, .channels = 3};
    coarse.pixels.resize(static_cast<std::size_t>(coarse.height * coarse.width * 3));
    for (std::uint8_t& value : coarse.pixels) value = static_cast<std::uint8_t>(rng.below(256));
    const Region all{0, 0, static_cast<double>(coarse.height), static_cast<double>(coarse.width)};
    resizer.resize(coarse.view(), all, {.height = kFileHeight, .width = kFileWidth}, one);
    const auto weight = static_cast<float>(kContrast * std::pow(kCoarser, scale) / weights);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * (one[i] - 127.5F);
  }
  Surface made{.height = kFileHeight, .width = kFileWidth, .channels = 3};
  for (const float value : sum)
    made.pixels.push_back(static_cast<std::uint8_t>(std::clamp(127.5F + value, 0.F, 255.F)));
  return made;
}

inline std::string jpeg(const Surface& surface, int quality) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&info, &out, &size);
  info.image_height = static_cast<JDIMENSION>(surface.height);
  info.image_width = static_cast<JDIMENSION>(surface.width);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(&surface.pixels[info.next_scanline * static_cast<std::size_t>(surface.width) * 3]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(out), size);
  std::free(out);
  return bytes;
}

/// A tf.train.Example with what data/tfrecords reads, framed as a record.
inline std::string record(std::string_view encoded, std::int64_t label) {
  ProtoWriter bytes_list, bytes_feature, int64_list, int64_feature, features, example;
  bytes_list.add_string(1, encoded);
  bytes_feature.add_message(1, bytes_list);
  int64_list.add_int(1, label);
  int64_feature.add_message(3, int64_list);
  const auto add = [&](std::string_view name, const ProtoWriter& feature) {
    ProtoWriter entry;
    entry.add_string(1, name);
    entry.add_message(2, feature);
    features.add_message(1, entry);
  };
  add("image/encoded", bytes_feature);
  add("image/class/label", int64_feature);
  example.add_message(1, features);
  return tf_record(example.bytes());
}

/// Makes `folder` anew: train/0 .. train/7 with JPEGs, and train-0000i-of-00004 with the same images.
inline void write_input_files(const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  std::vector<std::ofstream> shards;
  for (std::int64_t c = 0; c < kFileClasses; ++c)
    std::filesystem::create_directories(folder / fmt::format("train/{}", c));
  for (std::int64_t s = 0; s < kFileShards; ++s) {
    shards.emplace_back(folder / fmt::format("train-{:05}-of-{:05}", s, kFileShards), std::ios::binary);
  }
  for (std::int64_t i = 0; i < kFiles; ++i) {
    const std::int64_t label = i % kFileClasses;
    const std::string bytes = jpeg(photograph(static_cast<std::uint64_t>(i)), 95);
    std::ofstream file(folder / fmt::format("train/{}/{:03}.jpg", label, i), std::ios::binary);
    file << bytes;
    std::ofstream& shard = shards[static_cast<std::size_t>(i % kFileShards)];
    shard << record(bytes, label + 1);
    TROUPE_CHECK(file.flush() && shard.flush(), "input bench: cannot write to {}", folder.string());
  }
}

}  // namespace troupe::data
