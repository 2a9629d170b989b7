#include "learner.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "binding.hpp"
#include "message.hpp"
#include "role.hpp"

namespace troupe::python {
namespace {

nb::object agent_object(const actors::LearnerContext& context) {
  nb::dict batch, policy;
  for (const TensorSpec& column : context.batch) {
    const auto [name, dtype, shape] = column_of(column);
    batch[name.c_str()] = nb::make_tuple(dtype, nb::tuple(nb::cast(shape)));
  }
  for (const learner::ParamEntry& entry : context.policy.entries) {
    const auto dims = entry.shape.dims();
    policy[entry.name.c_str()] = nb::tuple(nb::cast(std::vector<std::int64_t>(dims.begin(), dims.end())));
  }
  nb::kwargs fields;
  fields["batch"] = batch;
  fields["policy"] = policy;
  fields["batch_size"] = context.batch_size;
  fields["max_steps"] = context.max_steps;
  fields["prioritised"] = context.prioritised;
  fields["seed"] = context.seed;
  return nb::module_::import_("troupe.learners").attr("Agent")(**fields);
}

using Floats = nb::ndarray<const float, nb::device::cpu>;

/// Copies numbers into the order of rows, from whatever order they lie in: a weight of PyTorch's is a transposed one.
/// In squares, as each number of a column lies in a cache line of its own.
void copy_rows(const Floats& from, float* to) {
  constexpr std::int64_t kSide = 16;
  const std::size_t rank = from.ndim();
  const auto size = [&](std::size_t back) {
    return rank < back ? 1 : static_cast<std::int64_t>(from.shape(rank - back));
  };
  const auto stride = [&](std::size_t back) { return rank < back ? 0 : from.stride(rank - back); };
  const std::int64_t rows = size(2), columns = size(1), across = stride(1), down = stride(2);
  const std::int64_t each = rows * columns, matrices = each == 0 ? 0 : static_cast<std::int64_t>(from.size()) / each;
  for (std::int64_t m = 0; m < matrices; ++m, to += each) {
    const float* matrix = from.data();
    for (std::int64_t rest = m, back = 3; rest > 0; ++back) {
      matrix += rest % size(back) * stride(back);
      rest /= size(back);
    }
    for (std::int64_t top = 0; top < rows; top += kSide) {
      for (std::int64_t left = 0; left < columns; left += kSide) {
        for (std::int64_t r = top; r < std::min(top + kSide, rows); ++r) {
          for (std::int64_t c = left; c < std::min(left + kSide, columns); ++c) {
            to[r * columns + c] = matrix[r * down + c * across];
          }
        }
      }
    }
  }
}

class PythonLearner final : public actors::Learner {
 public:
  /// With the lock.
  PythonLearner(const nb::object& type, const nb::dict& keys, const actors::LearnerContext& context)
      : layout_(context.policy), self_(shared(type(keys, agent_object(context)))) {}

  Result<actors::LearnerStep> learn(const BatchView& batch) override {
    return in_python("learner", [&]() -> Result<actors::LearnerStep> {
      const nb::object said =
          nb::module_::import_("troupe.learners").attr("as_step")(self_->attr("learn")(dict_of_columns(batch)));
      actors::LearnerStep step;
      add_scalars(step.metrics, said.attr("metrics"));
      const nb::object priorities = said.attr("priorities");
      if (!priorities.is_none()) step.priorities = nb::cast<std::vector<double>>(priorities);
      return step;
    });
  }

  Status write_policy(std::span<float> values) override {
    return in_python("learner", [&]() -> Status {
      const nb::object ready = nb::module_::import_("troupe.learners").attr("as_policy");
      const auto tensors = nb::cast<nb::dict>(ready(self_->attr("policy")()));
      for (const auto& [key, value] : tensors) {
        const auto name = nb::cast<std::string>(key);
        if (layout_.find(name) != nullptr) continue;
        return Error{Code::kNotFound, "learner: policy() gives \"" + name + "\", which the policy does not have"};
      }
      for (const learner::ParamEntry& entry : layout_.entries) {
        if (!tensors.contains(entry.name.c_str())) {
          return Error{Code::kNotFound, "learner: policy() does not give \"" + entry.name + "\""};
        }
        const auto given = nb::cast<Floats>(tensors[entry.name.c_str()]);
        TROUPE_ASSIGN(const Shape shape, shape_of(entry.name, given));
        if (shape != entry.shape) {
          return Error{Code::kShapeMismatch, "learner: policy() gives \"" + entry.name + "\" as " + shape.to_string() +
                                                 ", expected " + entry.shape.to_string()};
        }
        copy_rows(given, values.data() + entry.offset);
      }
      return {};
    });
  }

  Result<actors::RoleState> save() const override {
    return in_python("learner", [&]() -> Result<actors::RoleState> { return state_of(self_->attr("save")()); });
  }
  Status restore(const actors::RoleState& state) override {
    return in_python("learner", [&]() -> Status {
      self_->attr("restore")(dict_of(state));
      return {};
    });
  }

 private:
  const learner::ParamLayout layout_;
  const std::shared_ptr<nb::object> self_;
};

}  // namespace

LearnerKind learner_kind(const nb::object& type) {
  const nb::object about = nb::module_::import_("troupe.learners").attr("describe")(type);
  LearnerKind kind;
  kind.doc = nb::cast<std::string>(about.attr("doc"));
  kind.keys = keys_of(about.attr("keys"));
  kind.make = [kept = shared(type), keys = kind.keys](const ConfigSection& section) -> Result<actors::MakeLearner> {
    return actors::MakeLearner([kept, keys, section](const actors::LearnerContext& context) {
      return in_python("learner " + section.name(), [&]() -> Result<std::unique_ptr<actors::Learner>> {
        return {std::make_unique<PythonLearner>(*kept, values_of(section, keys), context)};
      });
    });
  };
  return kind;
}

}  // namespace troupe::python
