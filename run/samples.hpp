#pragma once
// What a run's evaluators show, as files to look at: RUN/samples/SOURCE/step-000001000.png for each picture, the same
// in TensorBoard, and at the end RUN/samples/SOURCE/all.gif, which runs through them.
#include <filesystem>
#include <mutex>
#include <utility>

#include <troupe/core/picture.hpp>
#include <troupe/run/tensorboard.hpp>

namespace troupe::apps {

/// Thread-safe. A disk that is full costs pictures, and a line in the log, but never the run.
class SampleSink final : public PictureSink {
 public:
  /// directory: RUN/samples, made with the first picture. tensorboard outlives the sink.
  SampleSink(std::filesystem::path directory, TensorBoardSink& tensorboard)
      : directory_(std::move(directory)), tensorboard_(tensorboard) {}

  Status write(const Picture& picture) override;

 private:
  Status keep(const Picture& picture);

  std::filesystem::path directory_;
  TensorBoardSink& tensorboard_;
  std::mutex mutex_;  ///< evaluators of several groups write at the same time
};

/// Makes the animations of all sources in `directory`, those of earlier starts of the run included; at most 60 frames
/// each, evenly over the steps. Does nothing where there are no pictures. Errors: kIo.
Status animate_samples(const std::filesystem::path& directory);

}  // namespace troupe::apps
