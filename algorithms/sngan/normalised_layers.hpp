#pragma once
// The discriminator's weights, spectrally normalised once in a step however often a network is applied.
#include <map>
#include <string>
#include <vector>

#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::sngan {

/// Layers by name. Each is made, and its weight normalised, at the first call; later passes of the step get the same
/// Vars. So there is one power iteration for one update, as in Alg. 1 of the paper. (The authors' code iterates at each
/// pass, and so three times for an update of both networks; u follows weights that hardly move either way.)
class NormalisedLayers {
 public:
  struct Layer {
    Var weight, bias;
  };

  /// training: spectral norm's u moves.
  NormalisedLayers(Graph& graph, ParamGroup group, bool training) : graph_(graph), group_(group), training_(training) {}
  NormalisedLayers(const NormalisedLayers&) = delete;
  NormalisedLayers& operator=(const NormalisedLayers&) = delete;

  /// weight: [in, out], or a convolution's [height, width, in, out], which is normalised as the matrix of its last
  /// dimension and all others; bias: [out]. gain: of the initial weight (glorot()).
  Layer at(const std::string& name, const Shape& weight, double gain = 1);
  /// A table of embeddings, [vocabulary, n]: without a bias.
  Var table(const std::string& name, const Shape& weight);

  /// The u of each layer made so far. It follows from the weights alone, so it is equal on all replicas.
  const std::vector<Var>& state() const { return state_; }

 private:
  Var normalised(const std::string& name, const Shape& weight, double gain);

  Graph& graph_;
  ParamGroup group_;
  bool training_;
  std::map<std::string, Layer> layers_;
  std::vector<Var> state_;
};

/// Glorot & Bengio 2010, Eq. 16, times `gain`: the reference implementation's initialiser, for matrices and
/// convolutions (its gain is sqrt(2) in front of a ReLU).
Init glorot(const Shape& weight, double gain = 1);

}  // namespace troupe::learner::sngan
