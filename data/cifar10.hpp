#pragma once
// CIFAR-10 (Krizhevsky 2009) from its binary files, in memory.
#include <filesystem>
#include <memory>

#include <troupe/core/error.hpp>
#include <troupe/data/images.hpp>

namespace troupe::data {

/// Reads data_batch_1.bin .. data_batch_5.bin, or test_batch.bin: 32 x 32 RGB, 10 classes. Files may have any number of
/// images. Errors, naming the file: kNotFound, kIo, kInvalidArgument (no regular file), kCorrupt (no whole number of
/// images, or a label that is none of the classes).
Result<std::shared_ptr<const Images>> load_cifar10(Split split, const std::filesystem::path& directory);

}  // namespace troupe::data
