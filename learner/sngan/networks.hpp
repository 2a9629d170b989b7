#pragma once
// The SN-GAN's two networks.
#include <functional>
#include <vector>

#include <troupe/learner/graph.hpp>
#include <troupe/learner/sngan/options.hpp>

namespace troupe::learner::sngan {

/// The parameter groups; with options.average_decay "generator.average" beside them.
inline constexpr const char* kGeneratorGroup = "generator";
inline constexpr const char* kDiscriminatorGroup = "discriminator";

struct GeneratorMode {
  bool training = true;             ///< of batch norm
  std::function<Var(Var)> all_sum;  ///< of batch norm in training; empty: statistics of this replica alone
  std::function<void(Var)> shared;  ///< called with each state that is equal on all replicas; may be empty
};

/// noise: [rows, noise_size]. Returns images in [-1, 1]: [rows, options.image].
Var generator(Graph& graph, ParamGroup group, const Options& options, Var noise, const GeneratorMode& mode);

/// Its weights are normalised once, when it is made, and then serve all passes of the step: the power iterations of a
/// step are those of one update, as in Alg. 1 of the paper.
class Discriminator {
 public:
  /// training: spectral norm's u moves.
  Discriminator(Graph& graph, ParamGroup group, const Options& options, bool training);

  /// The u of each layer. It follows from the weights alone, so it is equal on all replicas.
  std::vector<Var> state() const;
  /// image: [rows, options.image]. Returns logits, higher for real ones: [rows, 1].
  Var operator()(Var image) const;

 private:
  struct Layer {
    Var weight, bias, u;
  };
  std::int64_t pixels_;
  std::vector<Layer> layers_;
};

}  // namespace troupe::learner::sngan
