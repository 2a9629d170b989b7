#include <troupe/apps/cluster/environment.hpp>

#include <unistd.h>

#include <array>

extern char** environ;

namespace troupe::apps {

Environment process_environment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) == 0) variables.emplace("HOSTNAME", name.data());
  return variables;
}

Result<OwnPlace> own_place(const Environment& environment, const actors::TrainOptions& options,
                           const std::string& run) {
  if (environment.count("TF_CONFIG") > 0) return tf_config_place(environment, options, run);
  if (environment.count("SLURM_PROCID") > 0) return slurm_place(environment, options);
  if (environment.count("TROUPE_NODES") > 0 || environment.count("TROUPE_PODS") > 0 ||
      environment.count("JOB_COMPLETION_INDEX") > 0) {
    return kubernetes_place(environment, options);
  }
  return Error{Code::kNotFound,
               "this node cannot find its place: expected --cluster FILE --name NAME, or in the environment TF_CONFIG, "
               "Slurm's variables (start it with srun) or TROUPE_NODES (Kubernetes, see docs/deploy.md)"};
}

}  // namespace troupe::apps
