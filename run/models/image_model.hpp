#pragma once
// What models on images have in common: their data, their rows for an evaluation, and the network in the size that the
// data asks for.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/run/models/image_source.hpp>

namespace troupe::actors {

using MadeReplica = Result<std::unique_ptr<learner::Replica>>;

/// The largest ema_decay. It is below 1 also in float32, since an average must move.
inline constexpr double kDecayMax = 0.9999999;

/// How many images evaluators look at.
std::function<Result<std::int64_t>()> test_rows(const std::shared_ptr<ImageSource>& images,
                                                std::int64_t at_most = std::numeric_limits<std::int64_t>::max());

/// The network that users run, in the size that its data asks for.
template <typename Options>
std::function<void(learner::Graph&)> inference_of(std::function<Result<Options>(data::Split)> fitted,
                                                  void (*network)(learner::Graph&, const Options&)) {
  return [fitted = std::move(fitted), network](learner::Graph& graph) {
    const auto made = fitted(data::Split::kTest);
    if (!made.ok()) {
      graph.fail(made.error().code, made.error().message);
      return;
    }
    network(graph, *made);
  };
}

/// The key ema_decay, of models whose average is evaluated.
ConfigKey ema_key();

/// A model on images: the checks of its section, and `fill` once it is known which images there are.
Result<MakeModel> image_model(
    const ConfigSection& keys, std::vector<std::string> mistakes,
    std::function<void(ReplicaModel&, const std::shared_ptr<ImageSource>&, const ModelContext&)> fill);

}  // namespace troupe::actors
