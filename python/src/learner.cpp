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
        using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
        const auto given = nb::cast<Floats>(tensors[entry.name.c_str()]);
        TROUPE_ASSIGN(const Shape shape, shape_of(entry.name, given));
        if (shape != entry.shape) {
          return Error{Code::kShapeMismatch, "learner: policy() gives \"" + entry.name + "\" as " + shape.to_string() +
                                                 ", expected " + entry.shape.to_string()};
        }
        std::ranges::copy(std::span(given.data(), given.size()), values.begin() + entry.offset);
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
