#include <troupe/actors/roles/parameter_store.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

void report_staleness(const StalenessHistogram& staleness, Report& report) {
  report.gauges.push_back({"staleness_mean", staleness.mean()});
  for (const int percent : {50, 90, 99}) {
    const auto staleness_of = static_cast<double>(staleness.percentile(percent / 100.0));
    report.gauges.push_back({fmt::format("staleness_p{}", percent), staleness_of});
  }
  report.gauges.push_back({"staleness_max", static_cast<double>(staleness.max())});
}

RoleSpec ParameterStore::spec(std::string name) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{"updates", "Parameters", ChannelKind::kLatest},
                 {.name = "use", .type = "ParametersUse", .always_drained = true}};
  spec.outlets = {{"versions", "ParametersVersion", ChannelKind::kLatest},
                  {"parameters", "Parameters", ChannelKind::kLatest},
                  {"refused", "ParametersVersion", ChannelKind::kLatest}};
  spec.make = [](const RoleIdentity&) -> Result<std::unique_ptr<Role>> { return {std::make_unique<ParameterStore>()}; };
  return spec;
}

Result<Progress> ParameterStore::step(RoleContext& context) {
  Inlet& updates = context.in("updates");
  if (!updates.empty()) {
    Frame frame = updates.take();
    const auto version = read_update(frame);
    if (!version.ok()) {
      context.refuse("updates", version.error());
      TROUPE_ASSIGN(Frame reached, messages::make_parameters_version(context.pool(), {version_}));
      context.out("refused").send(std::move(reached));
      return Progress::kMore;
    }
    version_ = *version;
    TROUPE_ASSIGN(Frame newest, messages::make_parameters_version(context.pool(), {version_}));
    context.out("versions").send(std::move(newest));
    context.out("parameters").send(std::move(frame));
  }
  Inlet& uses = context.in("use");
  while (!uses.empty()) {
    const auto use = messages::read_parameters_use(uses.take());
    if (!use.ok()) {
      context.refuse("use", use.error());
      continue;
    }
    // An actor cannot be ahead of the store, from which it has its parameters.
    staleness_.add(std::max<std::int64_t>(version_ - use->version, 0), use->env_steps);
  }
  return Progress::kIdle;
}

Result<std::int64_t> ParameterStore::read_update(const Frame& frame) const {
  TROUPE_ASSIGN(const auto parameters, messages::read_parameters(frame));
  if (parameters.info().version >= version_) return parameters.info().version;
  return Error{Code::kInvalidArgument,
               fmt::format("update: got version {}, expected {} or newer", parameters.info().version, version_)};
}

void ParameterStore::report(Report& report) const {
  report.gauges.push_back({"version", static_cast<double>(version_)});
  report_staleness(staleness_, report);
}

}  // namespace troupe::actors
