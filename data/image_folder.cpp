#include <troupe/data/image_folder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

#include <troupe/data/detail/file.hpp>

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

Error error_at(Code code, const fs::path& path, std::string_view what) {
  return Error{code, fmt::format("{}: {}", path.string(), what)};
}

struct Listing {
  std::vector<std::string> folders, images;
};

bool is_image(const fs::path& name) {
  std::string extension = name.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

Result<Listing> list_of(const fs::path& directory) {
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  if (error) {
    const bool missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    return error_at(missing ? Code::kNotFound : Code::kIo, directory, "no folder of images: " + error.message());
  }
  Listing found;
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    std::string name = entries->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unknown;  // a link to nowhere is no folder; reading it says so
    if (entries->is_directory(unknown)) {
      found.folders.push_back(std::move(name));
    } else if (is_image(entries->path())) {
      found.images.push_back(std::move(name));
    }
  }
  if (error) return error_at(Code::kIo, directory, error.message());
  std::ranges::sort(found.folders);
  std::ranges::sort(found.images);
  return found;
}

}  // namespace

Result<ImageFolder::Classes> ImageFolder::classes_of(const fs::path& directory) {
  TROUPE_ASSIGN(Listing found, list_of(directory));
  return std::move(found.folders);
}

Status ImageFolder::list(const fs::path& directory, std::int32_t label) {
  TROUPE_ASSIGN(Listing found, list_of(directory));
  if (found.images.empty()) {
    return error_at(Code::kInvalidArgument, directory, "no image in it, expected *.png, *.jpg or *.jpeg");
  }
  for (std::string& name : found.images) files_.push_back({label, std::move(name)});
  return {};
}

Result<std::shared_ptr<const ImageFolder>> ImageFolder::open(const fs::path& directory, const Classes* classes) {
  TROUPE_ASSIGN(const Listing found, list_of(directory));
  auto folder = std::make_shared<ImageFolder>();
  folder->directory_ = directory;
  folder->classes_ = classes != nullptr ? *classes : found.folders;
  if (folder->classes_.empty() && found.folders.empty()) {
    TROUPE_TRY(folder->list(directory, 0));
    return std::shared_ptr<const ImageFolder>(std::move(folder));
  }
  if (!found.images.empty()) {
    return error_at(Code::kInvalidArgument, directory / found.images.front(),
                    "an image beside folders of classes, expected it in one of them");
  }
  if (found.folders.empty()) return error_at(Code::kInvalidArgument, directory, "no folders of classes in it");
  for (const std::string& name : found.folders) {
    const auto at = std::ranges::lower_bound(folder->classes_, name);
    if (at == folder->classes_.end() || *at != name) {
      return error_at(Code::kInvalidArgument, directory / name, "a class that the images to train with do not have");
    }
    TROUPE_TRY(folder->list(directory / name, static_cast<std::int32_t>(at - folder->classes_.begin())));
  }
  return std::shared_ptr<const ImageFolder>(std::move(folder));
}

fs::path ImageFolder::path(std::int64_t index) const {
  const Image& image = files_[static_cast<std::size_t>(index)];
  return classes_.empty() ? directory_ / image.name
                          : directory_ / classes_[static_cast<std::size_t>(image.label)] / image.name;
}

Status ImageFolder::read(std::int64_t index, Sample& sample) const {
  const fs::path file_name = path(index);
  TROUPE_ASSIGN(const detail::File file, detail::File::open(file_name));
  if (file.bytes() > kFileBytesMax) {
    return error_at(Code::kCorrupt, file_name,
                    fmt::format("{} bytes, expected an image of at most {}", file.bytes(), kFileBytesMax));
  }
  sample.storage.resize(file.bytes());
  TROUPE_TRY(file.read_at(0, sample.storage));
  sample.label = files_[static_cast<std::size_t>(index)].label;
  sample.shape = {};
  sample.bytes = sample.storage;
  return {};
}

std::string ImageFolder::name(std::int64_t index) const { return path(index).string(); }

}  // namespace troupe::data
