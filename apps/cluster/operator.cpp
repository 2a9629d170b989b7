#include <troupe/apps/cluster/operator.hpp>

#include <fmt/format.h>

#include <troupe/actors/network/node_network.hpp>
#include <troupe/run/node.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::apps {
namespace {

constexpr std::chrono::minutes kCertificateLifetime{5};

}  // namespace

Result<transport::Address> chief_of(const RunDirectory& run) {
  auto chief = actors::wait_for_chief(run.path, Duration::zero());
  if (chief.ok() || chief.error().code != Code::kDeadlineExceeded) return chief;
  if (has_nodes(run))
    return Error{Code::kUnavailable, fmt::format("{}: the run's chief has not begun yet", run.shown())};
  return Error{Code::kNotFound,
               fmt::format("{}: not the directory of a run over nodes: it has no chief.address", run.shown())};
}

Result<messages::Control> ask(const RunDirectory& run, const messages::Control& question, Duration timeout) {
  TROUPE_ASSIGN(const transport::Address chief, chief_of(run));
  const auto now = std::chrono::system_clock::now();
  TROUPE_ASSIGN(const auto authority, transport::Authority::load((run.path / "security").string(), now));
  const transport::Identity self{authority.run(), {"operator"}, "operator"};
  TROUPE_ASSIGN(const auto credentials, authority.issue(self, now, kCertificateLifetime));
  auto answer = actors::ask_chief(chief, self, credentials, question, timeout);
  if (answer.ok()) return answer;
  const auto progress = progress_of(run);
  return Error{answer.error().code,
               fmt::format("the chief at {} does not answer{}: {}", transport::to_string(chief),
                           progress.ok() && progress->ended ? ", as the run has ended" : "", answer.error().message)};
}

}  // namespace troupe::apps
