#pragma once
// Scalars and pictures for TensorBoard, written without TensorFlow: an event file is a sequence of TFRecords, each
// holding one `Event` protocol buffer (tensorboard/compat/proto/event.proto). tests/apps/read_events.py compares what
// is written with what TensorBoard's own reader sees.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <troupe/core/metrics.hpp>
#include <troupe/core/picture.hpp>
#include <troupe/run/append_file.hpp>
#include <troupe/run/pictures/image.hpp>

namespace troupe::apps {

/// A sink for rows, evaluations and pictures, which may come from different threads. TensorBoard's step is the row's
/// learner step; env steps are written as the scalar "run/env_steps" and wall time as "run/wall_s", so that curves over
/// either can be drawn. An evaluation is "SOURCE/NAME" at its own step; the final one is the evaluator's last point.
/// Tags are grouped by what stands before the slash: roles, "run", and "channels", where "ROLE.PORT.frames_per_s" and
/// the like are. TensorBoard holds values as float32.
class TensorBoardSink final : public MetricSink {
 public:
  /// Begins a new file events.out.tfevents.<start_unix_s>.troupe.<n> in `directory`, with the lowest n that is free.
  /// Rows are stamped with start_unix_s plus their wall time since the first row of this file. Errors: kIo.
  static Result<TensorBoardSink> create(const std::filesystem::path& directory, double start_unix_s);

  /// The first record of a file also says at which step the run goes on: TensorBoard then drops what an earlier file of
  /// the same directory holds from that step on (the part that a resumed run does again). Where parts of a run count
  /// steps of their own, it is the greatest of these: a few points of lost work may stay, but no point is lost.
  Status rewind(const RunPoint& to) override;
  /// Names are made printable.
  Status write(const MetricRow& row) override;
  Status record(const Evaluation& evaluation) override;
  Status flush() override;
  /// Writes the picture as "source/name", at its own step and with the time of the last row. Errors: kIo.
  Status write(const Picture& picture, const Image& image);

 private:
  TensorBoardSink(AppendFile file, double start_unix_s)
      : file_(std::move(file)), start_unix_s_(start_unix_s), last_wall_time_(start_unix_s) {}

  /// How things are stamped at this time of the run; called with the mutex held. Errors: kIo.
  Result<double> stamp(double wall_s);

  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  AppendFile file_;
  double start_unix_s_;
  double first_wall_s_ = 0;
  double last_wall_time_;
  std::int64_t goes_on_from_ = 0;  ///< step; 0: nothing of an earlier file is dropped
  bool started_ = false;
};

}  // namespace troupe::apps
