#include <troupe/run/initial_values.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/messages/safetensors.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/trained_run.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kFileMax = std::size_t{64} << 30;

/// Of one part, by name. The bytes are ours.
struct Saved {
  std::map<std::string, std::pair<Shape, std::vector<std::byte>>, std::less<>> tensors;
};

class Source {
 public:
  Source(const Registry& registry, std::string path) : registry_(registry), path_(std::move(path)) {}

  /// Any thread.
  Result<const Saved*> of(const std::string& part) {
    const std::lock_guard lock(mutex_);
    const std::string key = std::filesystem::is_directory(path_) ? part : "";
    if (const auto found = parts_.find(key); found != parts_.end()) return &found->second;
    TROUPE_ASSIGN(Saved saved, key.empty() ? of_file() : of_run(part));
    return &parts_.emplace(key, std::move(saved)).first->second;
  }
  const std::string& path() const { return path_; }

 private:
  Result<Saved> of_file() const {
    TROUPE_ASSIGN(const std::vector<std::byte> bytes, read_file(path_, kFileMax));
    TROUPE_ASSIGN(const auto file, messages::parse_safetensors(bytes));
    Saved saved;
    for (const messages::TensorBytes& tensor : file.tensors) {
      if (tensor.dtype != DType::kF32) continue;  // nothing that is trained is of another type
      saved.tensors[tensor.name] = {tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
    }
    return saved;
  }
  Result<Saved> of_run(const std::string& part) const {
    auto run = open_trained_run(registry_, path_, {.name = part});
    if (!run.ok() && run.error().code == Code::kNotFound) {
      // A run with a single part has that, whatever it is called.
      if (auto only = open_trained_run(registry_, path_, {}); only.ok()) run = std::move(only);
    }
    if (!run.ok()) return run.error();
    Saved saved;
    for (const actors::TrainedTensor& tensor : run->part.tensors) {
      const auto bytes = std::as_bytes(std::span(tensor.values));
      saved.tensors[tensor.name] = {tensor.shape, {bytes.begin(), bytes.end()}};
    }
    return saved;
  }

  const Registry registry_;
  const std::string path_;
  std::mutex mutex_;
  std::map<std::string, Saved> parts_;
};

Status overwrite(const Saved& saved, const std::string& source, const std::string& part, learner::Program& program) {
  TROUPE_TRY(program.fetch());
  std::vector<messages::TensorBytes> state = learner::save_state(program);
  std::vector<std::vector<std::byte>> kept;  // what stays as it is, since `state` points into the program
  kept.reserve(state.size());
  std::set<std::string> names;
  for (const messages::TensorBytes& tensor : state) names.insert(tensor.name);
  std::vector<std::string> missing;
  std::size_t taken = 0;
  for (messages::TensorBytes& tensor : state) {
    const auto found = saved.tensors.find(tensor.name);
    if (found == saved.tensors.end()) {
      if (!learner::is_slot(tensor.name, names)) missing.push_back(tensor.name);
      tensor.bytes = kept.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
      continue;
    }
    const auto& [shape, bytes] = found->second;
    if (shape != tensor.shape || bytes.size() != tensor.bytes.size()) {
      return Error{Code::kShapeMismatch, fmt::format("init: {} has {} of {}, expected {}", source, tensor.name,
                                                     shape.to_string(), tensor.shape.to_string())};
    }
    tensor.bytes = bytes;
    ++taken;
  }
  if (taken == 0) {
    return Error{Code::kNotFound, fmt::format("init: {} has none of the {} tensors of {}, such as {}", source,
                                              missing.size(), part, missing.empty() ? "" : missing.front())};
  }
  if (!missing.empty()) {
    log::warn("TRP-W107 {}: {} has nothing for {} of its tensors, which begin as ever: {}", part, source,
              missing.size(), fmt::join(missing, ", "));
  }
  log::info("{}: begins with {} tensors of {}", part, taken, source);
  return learner::restore_state(program, state, 0);
}

}  // namespace

actors::BeginWith begin_with(const Registry& registry, const std::string& source) {
  return [from = std::make_shared<Source>(registry, source)](const std::string& part,
                                                             learner::Program& program) -> Status {
    const auto saved = from->of(part);
    if (!saved.ok()) return Error{saved.error().code, "init: " + saved.error().message};
    return overwrite(**saved, from->path(), part, program);
  };
}

Status check_initial(const std::string& source) {
  std::error_code unknown;
  const auto wrong = [&](std::string_view what) {
    return Error{Code::kInvalidArgument,
                 fmt::format("init: {}: {}, expected a run or a file of safetensors", printable(source), what)};
  };
  if (!std::filesystem::exists(source, unknown)) return wrong("not there");
  if (std::filesystem::is_directory(source, unknown)) {
    const auto run = open_run_directory(source);
    if (!run.ok()) return wrong("a directory that is no run's");
    return has_checkpoint(*run) ? Status() : wrong("a run without a checkpoint");
  }
  if (!std::filesystem::is_regular_file(source, unknown)) return wrong("no regular file");
  TROUPE_ASSIGN(const std::vector<std::byte> bytes, read_file(source, kFileMax));
  const auto file = messages::parse_safetensors(bytes);
  return file.ok() ? Status() : wrong(file.error().message);
}

}  // namespace troupe::apps
