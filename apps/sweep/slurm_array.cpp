#include <troupe/apps/sweep/slurm_array.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <troupe/apps/cluster/detail/shell.hpp>
#include <troupe/apps/sweep/children.hpp>
#include <troupe/apps/sweep/sweep.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kToolTimeoutS = "60";
constexpr std::size_t kAnswerBytesMax = 4096;

fs::path job_file(const SweepDirectory& directory) { return directory.path / "slurm.job"; }

std::string whole_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// What one of Slurm's programs has said, on both streams, and how it ended.
struct Answer {
  bool good = false;
  std::string text;
  std::string how;  ///< it ended
};

/// Ends by itself, also when Slurm's controller does not answer.
Result<Answer> ask(const SweepDirectory& directory, std::vector<std::string> command) {
  const fs::path said = directory.logs() / fmt::format("{}.log", command.front());
  std::error_code ignored;
  fs::remove(said, ignored);
  command.insert(command.begin(), {"timeout", kToolTimeoutS});
  Answer answer;
  TROUPE_ASSIGN(const int asked,
                run_children({{std::move(command), said}}, {.ends = [&](std::size_t, const ChildEnding& ending) {
                               answer.how = in_words(ending);
                               answer.good = answer.how == "exit code 0";
                             }}));
  if (asked > 0) return Error{Code::kCancelled, "somebody asked for the end"};
  answer.text = whole_text(said);
  return answer;
}

Error no_answer(const char* program, const Answer& answer) {
  return {Code::kUnavailable,
          fmt::format("{} has ended with {}: {}", program, answer.how, shortened(answer.text, kAnswerBytesMax))};
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string array_indices(const std::vector<std::size_t>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string task_script(const std::vector<std::string>& program, const SweepDirectory& directory) {
  std::error_code ignored;
  std::string words;
  for (const std::string& word : program) words += detail::shell_quoted(word) + " ";
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# One run of a sweep for each task of an array job: written by `troupe sweep --slurm`, which submits it.\n"
      "exec {}sweep --resume {} --task \"$SLURM_ARRAY_TASK_ID\"\n",
      words, detail::shell_quoted(fs::absolute(directory.path, ignored).string()));
}

Result<std::optional<std::string>> active_job(const SweepDirectory& directory) {
  std::string job = whole_text(job_file(directory));
  if (job.ends_with('\n')) job.pop_back();
  if (!is_number(job)) return std::optional<std::string>();
  TROUPE_ASSIGN(const Answer answer, ask(directory, {"squeue", "--noheader", "--jobs=" + job}));
  // Slurm forgets a job some minutes after its end.
  if (!answer.good && answer.text.find("Invalid job id") != std::string::npos) return std::optional<std::string>();
  if (!answer.good) return no_answer("squeue", answer);
  return answer.text.empty() ? std::optional<std::string>() : job;
}

Result<std::string> submit(const SweepDirectory& directory, const std::vector<std::size_t>& numbers,
                           const SlurmOptions& options) {
  const fs::path script = directory.path / "slurm.sbatch";
  TROUPE_TRY(write_file_atomic(script.string(), task_script(options.program, directory), 0755));
  std::string log = (directory.logs() / "slurm-").string();
  for (std::size_t at = 0; (at = log.find('%', at)) != std::string::npos; at += 2) log.insert(at, 1, '%');
  std::vector<std::string> command = {
      "sbatch", "--parsable", "--job-name=troupe-sweep", fmt::format("--output={}%A_%a.log", log),
      // Of the batch script, which is the program: two minutes before its time is over it makes a checkpoint.
      "--signal=B:TERM@120",
      fmt::format("--array={}{}", array_indices(numbers), options.jobs ? fmt::format("%{}", *options.jobs) : "")};
  command.insert(command.end(), options.sbatch.begin(), options.sbatch.end());
  command.push_back(script.string());
  TROUPE_ASSIGN(const Answer answer, ask(directory, std::move(command)));
  // "12" or "12;cluster", perhaps behind warnings.
  const std::vector<std::string_view> all = lines(answer.text);
  const std::string last = all.empty() ? "" : std::string(all.back().substr(0, all.back().find(';')));
  if (!answer.good || !is_number(last)) return no_answer("sbatch", answer);
  TROUPE_TRY(write_file_atomic(job_file(directory).string(), last + "\n"));
  return last;
}

}  // namespace troupe::apps
