#pragma once
// Replicas on devices of one PJRT plug-in that are one program: it is compiled once, and one execution runs it on all
// of their devices, where its collectives are the plug-in's (TF-Replicator's TpuReplicator).
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/together.hpp>
#include <troupe/pjrt/client.hpp>

namespace troupe::learner {

class PjrtReplicas final : public Together {
 public:
  /// devices: of the client's, the replicas' in their order.
  PjrtReplicas(std::shared_ptr<const pjrt::Client> client, std::vector<std::int64_t> devices)
      : client_(std::move(client)), devices_(std::move(devices)), arguments_(devices_.size()) {}

  /// Those that a seat of this engine's is with; null: nobody.
  static PjrtReplicas* of(const Seat& seat) { return static_cast<PjrtReplicas*>(seat.with.get()); }

  const std::shared_ptr<const pjrt::Client>& client() const { return client_; }
  /// The program of all replicas, which the first one to ask compiles while the others wait. key: tells the programs of
  /// a replica apart. Errors: kInvalidArgument where its text is not that of the others; the plug-in's.
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> compiled(const std::string& key, std::string_view text);

  /// Waits for all replicas to come with the same program, and begins its run. Returns this replica's outputs. Errors,
  /// which all of them get: the plug-in's; kCancelled after stop().
  Result<std::vector<pjrt::Buffer>> execute(int replica, const pjrt::LoadedExecutable& program,
                                            const std::vector<const pjrt::Buffer*>& arguments);

  void stop(std::string_view why) override;
  void restart() override;

 private:
  struct Program {
    std::string text;  ///< until all have asked for it
    std::size_t asked = 0;
    std::shared_ptr<const pjrt::LoadedExecutable> executable;
  };

  const std::shared_ptr<const pjrt::Client> client_;
  const std::vector<std::int64_t> devices_;
  std::mutex compiling_;
  std::map<std::string, Program> programs_;

  std::mutex mutex_;  ///< of all below
  std::condition_variable all_are_here_;
  std::vector<std::vector<const pjrt::Buffer*>> arguments_;  ///< of those who have come
  std::size_t here_ = 0;
  std::uint64_t runs_ = 0;
  Result<pjrt::Outputs> outputs_ = pjrt::Outputs{};  ///< of the last run
  Status stopped_;
};

}  // namespace troupe::learner
