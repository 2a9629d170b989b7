#pragma once
// The images that a replica group learns from and is judged by, as its options name them: opened once for all replicas
// of a process, when the first one asks. Used by the models of run/models.
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <troupe/data/image_reader.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/run/models/image_input.hpp>
#include <troupe/run/models/image_keys.hpp>

namespace troupe::actors {

/// How one replica uses the images.
struct ImageUse {
  std::int64_t noise_size = 0;             ///< above 0: with a column "noise" of so many normal values
  std::optional<std::uint64_t> seed = {};  ///< of shuffling; empty: the source's
  bool augment = true;                     ///< of the images to train with
  bool ahead = true;  ///< on threads, where images take work: next() may then say kUnavailable. false: it never does
};

/// Thread-safe. A group keeps one for all that it makes.
class ImageSource : public std::enable_shared_from_this<ImageSource> {
 public:
  explicit ImageSource(ImageDataOptions options) : options_(std::move(options)) {}

  /// The images of a split, as they are to be tested with, or augmented. reader.shape() is [height, width, channels],
  /// reader.dataset() has count() and classes(), the same of both splits. Opens the files when it is asked first.
  /// Errors, naming file or option: as of the sets of data/, and of ImageReader::make().
  Result<std::shared_ptr<const data::ImageReader>> reader(data::Split split, bool augment = false);

  /// What a replica's input_fn returns: batches of a split, those to train with shuffled.
  learner::InputFn input(data::Split split, const ImageUse& use = {});

 private:
  Result<std::shared_ptr<const data::Dataset>> open(data::Split split) const;

  const ImageDataOptions options_;
  std::mutex mutex_;  // of all below, by split
  std::array<std::shared_ptr<const data::Dataset>, 2> datasets_;
  std::array<std::array<std::shared_ptr<const data::ImageReader>, 2>, 2> readers_;  // and whether they augment
};

}  // namespace troupe::actors
