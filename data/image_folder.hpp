#pragma once
// A folder of PNG and JPEG files, read as they are needed: a sub-folder for each class, or files alone, all of class 0.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/data/dataset.hpp>

namespace troupe::data {

class ImageFolder final : public Dataset {
 public:
  using Classes = std::vector<std::string>;

  /// The names of the sub-folders of `directory`, sorted: label 0 is the first one. Those that begin with a dot do not
  /// count. Errors: kNotFound, kIo, naming it.
  static Result<Classes> classes_of(const std::filesystem::path& directory);
  /// All files *.png, *.jpg and *.jpeg, in any case, in the order of their classes and names; other files do not count.
  /// `classes`: those to which labels refer, as those of the training set; null: classes_of(directory). Reads names
  /// alone. Errors, naming folder or file: kNotFound, kIo; kInvalidArgument for no images at all or in a class, for
  /// files beside sub-folders, and for a sub-folder that is none of `classes`.
  static Result<std::shared_ptr<const ImageFolder>> open(const std::filesystem::path& directory,
                                                         const Classes* classes = nullptr);

  std::int64_t count() const override { return std::ssize(files_); }
  std::int64_t classes() const override { return std::max<std::int64_t>(std::ssize(classes_), 1); }
  Shape shape() const override { return {}; }
  /// Files of more than kFileBytesMax are refused as kCorrupt.
  Status read(std::int64_t index, Sample& sample) const override;
  std::string name(std::int64_t index) const override;

  static constexpr std::uint64_t kFileBytesMax = 1ULL << 26;

 private:
  struct Image {
    std::int32_t label;
    std::string name;
  };
  std::filesystem::path path(std::int64_t index) const;
  Status list(const std::filesystem::path& directory, std::int32_t label);

  std::filesystem::path directory_;
  Classes classes_;
  std::vector<Image> files_;
};

}  // namespace troupe::data
