#pragma once
// Small messages of every kind with known content, for round trips and as seeds of hostile input.
#include <memory>
#include <vector>

#include <troupe/messages/batch.hpp>
#include <troupe/messages/control.hpp>
#include <troupe/messages/frame.hpp>
#include <troupe/messages/gradient.hpp>
#include <troupe/messages/inference.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/steps.hpp>
#include <troupe/messages/trajectory.hpp>

namespace troupe::messages::testing {

/// One column of each dtype.
std::shared_ptr<const Signature> sample_signature();
/// Small numbers in every byte: finite in every dtype.
void fill(const MutableBatchView& view);

Frame sample_trajectory(FramePool& pool, std::int64_t max_rows = 4, std::int64_t rows = 4);
/// Rows of two stacks of images, which share some, and one of numbers; five rows, of room for seven.
Frame sample_stacks(FramePool& pool);
Frame sample_batch(FramePool& pool);
/// Two sequences of at most three steps.
Frame sample_sequences(FramePool& pool);
/// Five steps, two items and the ends of two episodes.
Frame sample_steps(FramePool& pool);
Frame sample_parameters(FramePool& pool);
Frame sample_parameters_piece(FramePool& pool);
/// Five dense values, two rows of a table and no row of another.
Frame sample_gradient(FramePool& pool, DType dtype = DType::kF32);
PriorityUpdate sample_update();
EpisodeReport sample_episode();
EvaluationReport sample_evaluation();
MetricRow sample_row();
Control sample_control();

/// One frame of each kind that travels, in the order of Kind; then a piece of parameters.
std::vector<Frame> samples(FramePool& pool);

/// Reads with the reader of `kind` and touches everything that the view shows. Returns the status of reading.
Status read_all(const Frame& frame, Kind kind);

}  // namespace troupe::messages::testing
