#include <troupe/data/image_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <troupe/tests/data/write_images.hpp>

namespace troupe::data {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(const std::filesystem::path& directory, const ImageFolder::Classes* classes = nullptr) {
  const auto set = ImageFolder::open(directory, classes);
  return set.ok() ? "it was opened" : set.error().message;
}

TEST(ImageFolder, HasAClassForEachSubFolderAndSortsNames) {
  const testing::Folder folder("folder-classes");
  const Bytes image = testing::png(testing::picture(4, 4, 3));
  for (const char* name : {"trouser/b.png", "trouser/a.JPEG", "shirt/7.jpg", "shirt/notes.txt", ".cache/x.png"}) {
    testing::write(folder.path / name, image);
  }
  const auto set = ImageFolder::open(folder.path).value();
  EXPECT_EQ(set->count(), 3);
  EXPECT_EQ(set->classes(), 2);
  EXPECT_EQ(set->shape().rank(), 0);
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;
  Sample sample;
  for (std::int64_t i = 0; i < 3; ++i) {
    set->read(i, sample).value();
    names.push_back(std::filesystem::path(set->name(i)).filename());
    labels.push_back(sample.label);
    EXPECT_EQ(Bytes(sample.bytes.begin(), sample.bytes.end()), image);
  }
  EXPECT_THAT(names, ElementsAre("7.jpg", "a.JPEG", "b.png"));
  EXPECT_THAT(labels, ElementsAre(0, 1, 1));
  EXPECT_EQ(set->name(0), (folder.path / "shirt/7.jpg").string());
}

TEST(ImageFolder, WithoutSubFoldersIsOfOneClass) {
  const testing::Folder folder("folder-flat");
  for (const char* name : {"2.png", "1.png"}) testing::write(folder.path / name, {1});
  const auto set = ImageFolder::open(folder.path).value();
  EXPECT_EQ(set->count(), 2);
  EXPECT_EQ(set->classes(), 1);
  Sample sample;
  set->read(1, sample).value();
  EXPECT_EQ(sample.label, 0);
  EXPECT_EQ(set->name(1), (folder.path / "2.png").string());
}

TEST(ImageFolder, LabelsByTheClassesOfTheTrainingSet) {
  const testing::Folder folder("folder-val");
  testing::write(folder.path / "shirt/1.png", {1});
  const ImageFolder::Classes classes = {"bag", "shirt"};
  const auto set = ImageFolder::open(folder.path, &classes).value();
  EXPECT_EQ(set->classes(), 2);
  Sample sample;
  set->read(0, sample).value();
  EXPECT_EQ(sample.label, 1);
  const ImageFolder::Classes others = {"bag", "trouser"};
  EXPECT_EQ(error_of(folder.path, &others),
            (folder.path / "shirt").string() + ": a class that the images to train with do not have");
}

TEST(ImageFolder, NamesWhatIsWrongWithIt) {
  const testing::Folder folder("folder-bad");
  EXPECT_THAT(error_of(folder.path / "nowhere"),
              StartsWith((folder.path / "nowhere").string() + ": no folder of images"));
  EXPECT_EQ(error_of(folder.path), folder.path.string() + ": no image in it, expected *.png, *.jpg or *.jpeg");
  std::filesystem::create_directories(folder.path / "empty");
  EXPECT_EQ(error_of(folder.path),
            (folder.path / "empty").string() + ": no image in it, expected *.png, *.jpg or *.jpeg");
  testing::write(folder.path / "empty/1.png", {1});
  testing::write(folder.path / "2.png", {1});
  EXPECT_EQ(error_of(folder.path),
            (folder.path / "2.png").string() + ": an image beside folders of classes, expected it in one of them");
  testing::write(folder.path / "file", {1});
  EXPECT_THAT(error_of(folder.path / "file"), HasSubstr("no folder of images"));
}

TEST(ImageFolder, NamesTheFileThatCannotBeRead) {
  const testing::Folder folder("folder-unreadable");
  for (const char* name : {"a.png", "b.png", "c.png"}) testing::write(folder.path / name, {1});
  const auto set = ImageFolder::open(folder.path).value();
  Sample sample;
  const auto error = [&](std::int64_t index) {
    const Status read = set->read(index, sample);
    return read.ok() ? "it was read" : read.error().message;
  };
  std::filesystem::remove(folder.path / "a.png");
  EXPECT_EQ(error(0), (folder.path / "a.png").string() + ": open: No such file or directory");
  std::filesystem::remove(folder.path / "b.png");
  ASSERT_EQ(mkfifo((folder.path / "b.png").c_str(), 0600), 0);
  EXPECT_EQ(error(1), (folder.path / "b.png").string() + ": no regular file, expected a file");
  std::filesystem::resize_file(folder.path / "c.png", ImageFolder::kFileBytesMax + 1);  // sparse
  EXPECT_EQ(error(2), (folder.path / "c.png").string() + ": 67108865 bytes, expected an image of at most 67108864");
  std::filesystem::resize_file(folder.path / "c.png", 1);
  std::filesystem::permissions(folder.path / "c.png", std::filesystem::perms::none);
  if (access((folder.path / "c.png").c_str(), R_OK) == 0) return;  // root may read everything
  EXPECT_EQ(error(2), (folder.path / "c.png").string() + ": open: Permission denied");
}

}  // namespace
}  // namespace troupe::data
