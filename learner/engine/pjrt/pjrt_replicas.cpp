#include <troupe/learner/engine/pjrt/pjrt_replicas.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/learner/engine/pjrt/program_cache.hpp>

namespace troupe::learner {

namespace {

/// The first line in which they differ, of b.
std::string_view first_difference(std::string_view a, std::string_view b) {
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in2 - b.begin());
  const std::size_t begin = at == 0 ? 0 : b.rfind('\n', at - 1) + 1;
  return b.substr(begin, b.find('\n', at) - begin);
}

}  // namespace

Result<std::shared_ptr<const pjrt::LoadedExecutable>> PjrtReplicas::compiled(const std::string& key,
                                                                             std::string_view text) {
  const std::scoped_lock lock(compiling_);
  const auto [found, is_new] = programs_.try_emplace(key);
  Program& program = found->second;
  if (is_new) {
    auto made = program_cache().program(
        *client_, text,
        {.replicas = static_cast<int>(devices_.size()), .devices = devices_, .flags = compile_flags(*client_)});
    if (!made.ok()) {
      programs_.erase(found);
      return made.error();
    }
    program.executable = std::make_shared<const pjrt::LoadedExecutable>(std::move(made).value());
    program.text = text;
  } else if (program.text != text) {
    return Error{Code::kInvalidArgument,
                 fmt::format("replicas of one program build different steps, expected the same one; they differ at {}",
                             first_difference(program.text, text))};
  }
  auto executable = program.executable;
  if (++program.asked == devices_.size()) programs_.erase(found);
  return executable;
}

Result<std::vector<pjrt::Buffer>> PjrtReplicas::execute(int replica, const pjrt::LoadedExecutable& program,
                                                        const std::vector<const pjrt::Buffer*>& arguments) {
  std::unique_lock lock(mutex_);
  TROUPE_TRY(stopped_);
  arguments_[static_cast<std::size_t>(replica)] = arguments;
  const std::uint64_t run = runs_;
  if (++here_ == devices_.size()) {
    outputs_ = program.execute(arguments_);
    here_ = 0;
    ++runs_;
    all_are_here_.notify_all();
  } else {
    all_are_here_.wait(lock, [&] { return runs_ != run || !stopped_.ok(); });
    if (runs_ == run) return stopped_.error();
  }
  if (!outputs_.ok()) return outputs_.error();
  return std::move((*outputs_)[static_cast<std::size_t>(replica)]);
}

void PjrtReplicas::stop(std::string_view why) {
  const std::scoped_lock lock(mutex_);
  stopped_ = Error{Code::kCancelled, std::string(why)};
  all_are_here_.notify_all();
}

void PjrtReplicas::restart() {
  const std::scoped_lock lock(mutex_);
  stopped_ = {};
  here_ = 0;
}

}  // namespace troupe::learner
