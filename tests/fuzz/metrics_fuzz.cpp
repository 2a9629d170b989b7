// metrics.csv, channels.csv and evaluations.csv as a resumed run finds them, and the reports of instances that become
// their rows.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <troupe/actors/runtime/instance_report.hpp>
#include <troupe/apps/cluster/detail/prefixed_output.hpp>
#include <troupe/core/text.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

apps::CsvSink::Paths paths() {
  return {scratch_folder() + "/metrics.csv", scratch_folder() + "/channels.csv", scratch_folder() + "/evaluations.csv"};
}

/// A file that is taken is written as lines that are read the same, also after work was lost.
void table(Bytes text, const std::string& name) {
  for (const auto& path : {paths().metrics, paths().channels, paths().evaluations}) std::filesystem::remove(path);
  const std::string path = scratch_file(name, text);
  const auto lines = [&]() -> Result<std::size_t> {
    if (name == "channels.csv") {
      TROUPE_ASSIGN(const auto read, apps::read_channels_csv(path));
      return read.size();
    }
    if (name == "evaluations.csv") {
      TROUPE_ASSIGN(const auto read, apps::read_evaluations_csv(path));
      return read.size();
    }
    TROUPE_ASSIGN(const auto read, apps::read_metrics_csv(path));
    return read.size();
  };
  const auto count = lines();
  if (!count.ok()) return;
  TROUPE_CHECK(apps::CsvSink::open(paths()).ok(), "what is read is not gone on with");
  const std::string once = file_text(path);
  auto again = apps::CsvSink::open(paths());
  TROUPE_CHECK(again.ok() && file_text(path) == once, "the file changes each time it is opened");
  TROUPE_CHECK(*lines() == *count, "rows are lost");
  TROUPE_CHECK(again->rewind({.evaluated_steps = {{"evaluator", 10}}}).ok() && *lines() <= *count, "rows come back");
}

void report(Bytes bytes) {
  std::vector<std::byte> message(bytes.begin(), bytes.end());
  message.resize(std::max<std::size_t>(16, (message.size() + 7) / 8 * 8));
  store(message, 0, static_cast<std::uint64_t>(message.size() / 8 - 1) << 32);
  messages::FramePool pool;
  const auto got = actors::read_instance_report(pool.copy(message).value());
  if (!got.ok()) return;
  const auto written = actors::make_instance_report(pool, *got);
  if (!written.ok()) return;  // names of one report can differ in what comes before theirs, and then be longer
  const auto again = actors::read_instance_report(*written);
  TROUPE_CHECK(again.ok() && again->role == got->role && again->index == got->index &&
                   again->content.counters.size() == got->content.counters.size(),
               "a report of {} changed", got->role);
}

/// A row and an evaluation of the input's numbers and names are there again.
void row(Input input) {
  for (const auto& path : {paths().metrics, paths().channels, paths().evaluations}) std::filesystem::remove(path);
  auto sink = apps::CsvSink::open(paths()).value();
  MetricRow row{.wall_s = std::abs(input.take<float>()), .env_steps = input.take<std::int64_t>()};
  if (!std::isfinite(row.wall_s)) return;
  Evaluation evaluation{.wall_s = row.wall_s, .step = row.env_steps};
  for (int i = 0; i < 3 && !input.empty(); ++i) {
    const auto value = input.take<double>();
    evaluation.source = to_string(input.part());
    row.scalars.push_back({evaluation.source, value});
    row.ports.push_back({.role = evaluation.source, .port = evaluation.source, .waiting = value, .depth = {}});
  }
  evaluation.values = row.scalars;
  TROUPE_CHECK(sink.write(row).ok() && sink.record(evaluation).ok() && sink.flush().ok(), "a row is not written");
  const auto back = apps::read_metrics_csv(paths().metrics);
  TROUPE_CHECK(back.ok() && back->size() == 1 && back->front().env_steps == row.env_steps, "a row changed: {}",
               back.ok() ? "" : back.error().message);
  const auto found = apps::read_evaluations_csv(paths().evaluations);
  TROUPE_CHECK(found.ok() && found->size() == 1 && found->front().source == printable(evaluation.source),
               "an evaluation changed: {}", found.ok() ? "" : found.error().message);
  TROUPE_CHECK(apps::read_channels_csv(paths().channels)->size() == row.ports.size(), "a port is missing");
  for (const Scalar& scalar : back->front().scalars) {
    TROUPE_CHECK(printable(scalar.name, 8192) == scalar.name, "the name {}", scalar.name);
  }
}

void output(Bytes bytes) {
  apps::detail::LineCutter cutter;
  const auto emit = [](std::string_view line) {
    TROUPE_CHECK(line.size() <= apps::detail::kLogLineBytesMax + 1, "a line of {} bytes", line.size());
    const std::string shown = printable(line, apps::detail::kLogLineBytesMax);
    TROUPE_CHECK(shown.size() <= apps::detail::kLogLineBytesMax + 3 && printable(shown, 8192) == shown, "{}", shown);
  };
  cutter.append(text_of(bytes), emit);
  cutter.finish(emit);
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(6)) {
    case 0:
      return table(choice.rest(), "metrics.csv");
    case 1:
      return report(choice.rest());
    case 2:
      return row(choice);
    case 3:
      return table(choice.rest(), "channels.csv");
    case 4:
      return table(choice.rest(), "evaluations.csv");
    default:
      return output(choice.rest());
  }
}

std::vector<std::string> seeds() {
  messages::FramePool pool;
  actors::InstanceReport report{.role = "learner", .index = 2, .content = {}};
  report.content.counters = {{"steps", 12}};
  report.content.gauges = {{"version", 40}};
  return {std::string(1, '\0') +
              "wall_s,env_steps,learner_steps,a/b,\"x,\"\"y\"\"\"\n0.5,10,2,0.25,\n1e300,11,3,nan,-inf\n0.",
          "\1" + to_string(actors::make_instance_report(pool, report)->bytes()),
          "\2" + std::string(12, '\1') + std::string(8, '\2') + part("a,\"b\"\n") + std::string(8, '\3') + part("c"),
          "\3wall_s,env_steps,learner_steps,role,port,frames_per_s,bytes_per_s,waiting,refused_per_s,depth\n"
          "1,10,2,actor,out,2.5,100,0.25,0,\n1,10,2,replay,\"a,\"\"\",2.5,100,0,1,3\n1,1",
          "\4wall_s,source,step,env_steps,return\n1.5,evaluator,200,10,12.5\n2,gan-evaluator,3,0,\n2,ev",
          "\5one line\r\nand\x1b[31m \xc3\xa9 \xff\n"};
}

const Registered registered({"metrics", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
