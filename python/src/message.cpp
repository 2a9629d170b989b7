#include "message.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include <troupe/actors/roles/sampled_rows.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/message_type.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/trajectory.hpp>

#include "binding.hpp"

namespace troupe::python {
namespace {

using messages::Frame;

/// Of troupe.messages.
nb::object make(const char* type, nb::kwargs fields) {
  return nb::module_::import_("troupe.messages").attr(type)(**fields);
}

Result<nb::object> batch_of(const Frame& frame) {
  TROUPE_ASSIGN(const auto batch, messages::read_batch(frame));
  if (batch.columns().rows == 0)
    return nb::object(dict_of(actors::table_info(batch.info())));  // it was asked for alone
  nb::kwargs fields;
  fields["data"] = dict_of_columns(batch.columns());
  fields["keys"] = copied(batch.rows().keys);
  fields["probabilities"] = copied(batch.rows().probabilities);
  fields["priorities"] = copied(batch.rows().priorities);
  fields["times_sampled"] = copied(batch.rows().times_sampled);
  fields["table_size"] = batch.info().table_items;
  if (batch.rows().lengths.empty()) return make("Sample", fields);
  fields["lengths"] = copied(batch.rows().lengths);
  return make("SequenceSample", fields);
}

Result<nb::object> trajectory_of(const Frame& frame) {
  TROUPE_ASSIGN(const auto trajectory, messages::read_trajectory(frame));
  const BatchView& rows = trajectory.rows();
  const Stacks stacks(trajectory.signature());
  nb::kwargs fields;
  if (stacks.is_split(rows)) {
    BatchBuffer whole(stacks.whole(), rows.rows);
    stacks.join(rows, whole.mutable_view(), 0);
    fields["data"] = dict_of_columns(whole.view());
  } else {
    fields["data"] = dict_of_columns(rows);
  }
  fields["priorities"] = trajectory.priorities().empty() ? nb::none() : copied(trajectory.priorities());
  fields["parameters_version"] = trajectory.info().parameters_version;
  fields["env_steps"] = trajectory.info().env_steps;
  return make("Trajectory", fields);
}

Result<nb::object> parameters_of(const Frame& frame) {
  TROUPE_ASSIGN(const auto parameters, messages::read_parameters(frame));
  TROUPE_ASSIGN(const auto values, parameters.floats());
  nb::kwargs fields;
  fields["version"] = parameters.info().version;
  fields["values"] = copied(values);
  fields["layout_hash"] = parameters.info().layout_hash;
  return make("Parameters", fields);
}

Result<nb::object> priorities_of(const Frame& frame) {
  TROUPE_ASSIGN(const auto update, messages::read_priorities(frame));
  nb::kwargs fields;
  fields["keys"] = copied(std::span<const std::uint64_t>(update.keys));
  fields["priorities"] = copied(std::span<const double>(update.priorities));
  fields["table"] = update.table;
  fields["deletes"] = copied(std::span<const std::uint64_t>(update.deletes));
  fields["reset"] = update.reset;
  return make("Priorities", fields);
}

Result<nb::object> request_of(const Frame& frame) {
  TROUPE_ASSIGN(const auto request, messages::read_sample_request(frame));
  nb::kwargs fields;
  fields["table"] = request.table;
  fields["rows"] = request.rows;
  fields["timeout"] = request.timeout_ms / 1e3;
  return make("SampleRequest", fields);
}

Result<nb::object> version_of(const Frame& frame) {
  TROUPE_ASSIGN(const auto newest, messages::read_parameters_version(frame));
  return nb::object(nb::int_(newest.version));
}

/// As troupe.messages has made them ready: names with contiguous arrays whose first dimension is that of the rows.
using NamedColumns = std::vector<std::pair<std::string, Rows>>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Result<Frame> trajectory_frame(nb::handle message, messages::FramePool& pool, Sender& sender) {
  const auto columns = nb::cast<NamedColumns>(message.attr("columns")());
  std::int64_t rows = -1;
  Signature signature;
  for (const auto& [name, column] : columns) {
    const auto first = column.ndim() == 0 ? -1 : static_cast<std::int64_t>(column.shape(0));
    if (rows < 0) rows = first;
    if (first < 0 || first != rows) {
      return Error{Code::kShapeMismatch, "trajectory: column " + name + " has " + std::to_string(first) +
                                             " rows, expected " + std::to_string(rows) + " as the first one"};
    }
    TROUPE_ASSIGN(const Shape shape, shape_of("column " + name, column, 1));
    TROUPE_ASSIGN(const DType dtype, dtype_of("column " + name, column.dtype()));
    signature.push_back({name, dtype, shape});
  }
  if (rows < 1) return Error{Code::kInvalidArgument, "trajectory: there are no rows"};
  const nb::object priorities = message.attr("priorities");
  messages::TrajectoryOptions options{std::make_shared<const Signature>(std::move(signature)), rows,
                                      !priorities.is_none()};
  TROUPE_ASSIGN(auto builder, messages::TrajectoryBuilder::make(pool, options));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::memcpy(builder.rows().columns[i].data(), columns[i].second.data(), columns[i].second.nbytes());
  }
  if (!priorities.is_none()) {
    const auto given = nb::cast<Doubles>(priorities);
    if (given.size() != builder.priorities().size()) {
      return Error{Code::kShapeMismatch,
                   "trajectory: " + std::to_string(given.size()) + " priorities, expected " + std::to_string(rows)};
    }
    std::ranges::copy(std::span(given.data(), given.size()), builder.priorities().begin());
  }
  const messages::TrajectoryInfo info{.producer = sender.index,
                                      .incarnation = sender.incarnation,
                                      .sequence = sender.trajectories++,
                                      .parameters_version = nb::cast<std::int64_t>(message.attr("parameters_version")),
                                      .env_steps = nb::cast<std::int64_t>(message.attr("env_steps"))};
  return std::move(builder).finish(info, rows);
}

Result<Frame> parameters_frame(nb::handle message, messages::FramePool& pool) {
  using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  const auto values = nb::cast<Floats>(message.attr("values"));
  TROUPE_ASSIGN(auto builder,
                messages::ParametersBuilder::make(pool, DType::kF32, static_cast<std::int64_t>(values.size())));
  std::memcpy(builder.data().data(), values.data(), values.nbytes());
  return std::move(builder).finish({.version = nb::cast<std::int64_t>(message.attr("version")),
                                    .layout_hash = nb::cast<std::uint64_t>(message.attr("layout_hash"))});
}

Result<Frame> priorities_frame(nb::handle message, messages::FramePool& pool) {
  using Keys = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  const auto keys = nb::cast<Keys>(message.attr("keys"));
  const auto priorities = nb::cast<Doubles>(message.attr("priorities"));
  if (keys.size() != priorities.size()) {
    return Error{Code::kShapeMismatch,
                 "priorities: " + std::to_string(priorities.size()) + " for " + std::to_string(keys.size()) + " keys"};
  }
  const auto deletes = nb::cast<Keys>(message.attr("deletes"));
  return messages::make_priorities(pool, {{keys.data(), keys.data() + keys.size()},
                                          {priorities.data(), priorities.data() + priorities.size()},
                                          nb::cast<std::string>(message.attr("table")),
                                          {deletes.data(), deletes.data() + deletes.size()},
                                          nb::cast<bool>(message.attr("reset"))});
}

Result<Frame> request_frame(nb::handle message, messages::FramePool& pool) {
  constexpr double kLongestMs = 1 << 30;
  const double timeout_ms = std::ceil(nb::cast<double>(message.attr("timeout")) * 1e3);
  if (!(timeout_ms >= 1)) return Error{Code::kInvalidArgument, "sample request: expected a timeout above 0 s"};
  return messages::make_sample_request(
      pool, {nb::cast<std::int64_t>(message.attr("rows")), static_cast<std::uint32_t>(std::min(timeout_ms, kLongestMs)),
             nb::cast<std::string>(message.attr("table"))});
}

/// Raises TroupeError where it is no troupe.TYPE.
void expect_instance(nb::handle message, const std::string& type, const std::string& what) {
  const nb::object wanted = nb::module_::import_("troupe.messages").attr(type.c_str());
  if (!nb::isinstance(message, wanted)) raise(wrong_type(message, what, "a troupe." + type));
}

}  // namespace

nb::dict dict_of_columns(const BatchView& rows) {
  nb::dict data;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const auto [column, memory] = tensor_array((*rows.signature)[i], static_cast<std::size_t>(rows.rows));
    std::memcpy(memory, rows.columns[i].data(), rows.columns[i].size());
    data[(*rows.signature)[i].name.c_str()] = column;
  }
  return data;
}

bool has_form(const std::string& type) {
  return !messages::is_kind_name(type) || type == "Batch" || type == "Trajectory" || type == "Parameters" ||
         type == "Priorities" || type == "ParametersVersion" || type == "SampleRequest" || type == "Steps";
}

Result<nb::object> to_python(const Frame& frame, const std::string& type) {
  if (type == "Batch") return batch_of(frame);
  if (type == "Trajectory") return trajectory_of(frame);
  if (type == "Parameters") return parameters_of(frame);
  if (type == "Priorities") return priorities_of(frame);
  if (type == "ParametersVersion") return version_of(frame);
  if (type == "SampleRequest") return request_of(frame);
  if (type == "Steps") return Error{Code::kInvalidArgument, "steps are for a troupe.SequenceReplayRole"};
  return nb::object(nb::bytes(frame.bytes().data(), frame.size()));
}

Result<Frame> to_frame(nb::handle message, const std::string& type, messages::FramePool& pool, Sender& sender) {
  if (type == "Batch") return Error{Code::kInvalidArgument, "a role in Python takes batches, and sends none"};
  if (type == "Steps") return Error{Code::kInvalidArgument, "steps are sent by troupe.StepsWriter.flush()"};
  const std::string what = "a message of type " + type;
  if (type == "ParametersVersion") {
    return messages::make_parameters_version(pool, {cast_or_raise<std::int64_t>(message, what, "an integer")});
  }
  if (messages::is_kind_name(type)) expect_instance(message, type, what);
  if (type == "Trajectory") return trajectory_frame(message, pool, sender);
  if (type == "Parameters") return parameters_frame(message, pool);
  if (type == "Priorities") return priorities_frame(message, pool);
  if (type == "SampleRequest") return request_frame(message, pool);
  const auto bytes = cast_or_raise<nb::bytes>(message, what, "bytes");
  return pool.copy({static_cast<const std::byte*>(bytes.data()), bytes.size()});
}

}  // namespace troupe::python
