#include <troupe/actors/roles/policy_publication.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kUpdatesPort = "updates";
constexpr const char* kRefusedPort = "refused";
/// Versions that one write to disk covers: some seconds' worth.
constexpr std::int64_t kVersionsReserved = 10'000;
/// More than any run has.
constexpr std::int64_t kVersionsMost = std::int64_t{1} << 48;

class PolicyPublication final : public Publication {
 public:
  PolicyPublication(PolicyPublicationOptions options, std::string name)
      : options_(std::move(options)), name_(std::move(name)) {}

  /// Goes on behind what an earlier process had reserved in `directory`.
  Status open(const std::filesystem::path& directory) {
    std::error_code failed;
    std::filesystem::create_directories(directory, failed);
    reservation_ = directory / "versions";
    if (std::ifstream file(reservation_); file && !(file >> reserved_)) {
      return Error{Code::kCorrupt, fmt::format("{}: got no number of a version", reservation_.string())};
    }
    version_offset_ = reserved_;
    return {};
  }

  Status settle(RoleContext& context, learner::Program& program) override {
    while (copied_) TROUPE_TRY(send(context, program));  // a copy of some microseconds
    return {};
  }

  Status join(const GroupMember& member, learner::Program&) override {
    // By how much versions run ahead of steps. Who has just come knows only what it had reserved itself, which counts
    // when nobody else knows more.
    const std::int64_t own[] = {agreed_ ? 1 : 0, version_offset_};
    TROUPE_ASSIGN(const auto all, member.communicator().gather_integers(own, {.name = "versions"}));
    std::int64_t known = 0;
    for (std::size_t i = 0; i < all.size(); i += 2) known = std::max(known, all[i]);
    version_offset_ = 0;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      if (all[i] == known) version_offset_ = std::max(version_offset_, all[i + 1]);
    }
    agreed_ = true;
    return {};
  }

  Status advance(RoleContext& context, learner::Program& program) override {
    TROUPE_TRY(send(context, program));
    if (!context.in(kRefusedPort).empty()) go_behind(context, program);
    return {};
  }

  Result<bool> publish_if_due(RoleContext& context, learner::Program& program, const GroupMember& member,
                              bool last) override {
    const std::int64_t version = version_of(program);
    // Of a group every member does so, not only the one that publishes: any of them may be the first to come back.
    if (!reservation_.empty() && version > reserved_) TROUPE_TRY(reserve(version + kVersionsReserved));
    if (!member.is_first()) return true;
    TROUPE_TRY(send(context, program));
    if (copied_) return false;
    if (published_ >= 0 && version - published_ < (last ? 1 : options_.period)) return true;
    if (!context.out(kUpdatesPort).ready(0)) return false;
    TROUPE_TRY(program.begin_snapshot(options_.groups));
    copied_ = version;
    TROUPE_TRY(send(context, program));
    return !copied_;
  }

  bool pending() const override { return copied_.has_value(); }

  void report(const learner::Program& program, const GroupMember& member, Report& report) const override {
    // Before it has agreed with its group it knows no version that counts.
    if (member.in_group() && !agreed_) return;
    report.gauges.push_back({"version", static_cast<double>(version_of(program))});
  }

  void restore(std::int64_t step) override { version_offset_ = std::max<std::int64_t>(version_offset_ - step, 0); }

 private:
  std::int64_t version_of(const learner::Program& program) const { return version_offset_ + program.step(); }

  /// A parameter store knows newer versions: those of members that went on while this one was away, and are no more.
  void go_behind(RoleContext& context, const learner::Program& program) {
    const auto reached = read_reached(context.in(kRefusedPort).take());
    if (!reached.ok()) return context.refuse(kRefusedPort, reached.error());
    if (*reached < version_of(program)) return;  // of an update that was sent before the last time
    log::warn("{}: version {} is older than the {} that others had published: goes on behind it, from step {}", name_,
              version_of(program), *reached, program.step());
    version_offset_ = *reached + 1 - program.step();
  }

  /// Sends the parameters that are being copied, if they are there.
  Status send(RoleContext& context, learner::Program& program) {
    if (!copied_) return {};
    TROUPE_ASSIGN(const auto snapshot, program.snapshot());
    if (!snapshot) return {};
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(context.pool(), DType::kF32,
                                                                  static_cast<std::int64_t>(snapshot->values.size())));
    std::memcpy(builder.data().data(), snapshot->values.data(), builder.data().size());
    context.out(kUpdatesPort).send(std::move(builder).finish({*copied_, snapshot->fingerprint}));
    published_ = *copied_;
    copied_.reset();
    return {};
  }

  /// Promises on disk that no version up to `version` is ever used again, whatever happens to this process.
  Status reserve(std::int64_t version) {
    TROUPE_TRY(write_file_atomic(reservation_.string(), std::to_string(version) + "\n"));
    reserved_ = version;
    return {};
  }

  const PolicyPublicationOptions options_;
  const std::string name_;
  std::int64_t published_ = -1;         ///< version
  std::optional<std::int64_t> copied_;  ///< the version that is being copied from the trainer's device
  bool agreed_ = false;                 ///< has been in an epoch
  std::filesystem::path reservation_;   ///< empty: it has no folder, and is never restarted alone
  std::int64_t reserved_ = 0;
  std::int64_t version_offset_ = 0;  ///< version - steps
};

}  // namespace

Result<std::int64_t> read_reached(const messages::Frame& refusal) {
  TROUPE_ASSIGN(const auto reached, messages::read_parameters_version(refusal));
  if (reached.version < kVersionsMost) return reached.version;
  return Error{Code::kOutOfRange, fmt::format("got version {}, expected one below {}", reached.version, kVersionsMost)};
}

PublicationSpec policy_publication(PolicyPublicationOptions options) {
  return {.inlets = {{kRefusedPort, "ParametersVersion", ChannelKind::kLatest}},
          .outlets = {{kUpdatesPort, "Parameters", ChannelKind::kLatest}},
          .make = [options = std::move(options)](const RoleIdentity& identity) -> Result<std::unique_ptr<Publication>> {
            auto made = std::make_unique<PolicyPublication>(options, identity.name());
            if (!identity.directory.empty()) TROUPE_TRY(made->open(identity.directory));
            return {std::move(made)};
          }};
}

}  // namespace troupe::actors
