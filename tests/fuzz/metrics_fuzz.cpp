// metrics.csv as a resumed run finds it, and the reports of instances that become its rows.
#include <cmath>
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

/// A file that is taken is written as rows that are read the same.
void table(Bytes text) {
  const std::string path = scratch_file("metrics.csv", text);
  const auto rows = apps::read_csv_metrics(path);
  if (!rows.ok()) return;
  TROUPE_CHECK(apps::CsvSink::open(path).ok(), "what is read is not gone on with");
  const std::string once = file_text(path);
  TROUPE_CHECK(apps::CsvSink::open(path).ok() && file_text(path) == once, "the file changes each time it is opened");
  TROUPE_CHECK(apps::read_csv_metrics(path)->size() == rows->size(), "rows are lost");
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

/// A row of the input's numbers and names is there again.
void row(Input input) {
  const std::string path = scratch_folder() + "/rows.csv";
  std::remove(path.c_str());
  auto sink = apps::CsvSink::open(path).value();
  MetricRow row{.wall_s = std::abs(input.take<float>()), .env_steps = input.take<std::int64_t>()};
  if (!std::isfinite(row.wall_s)) return;
  for (int i = 0; i < 3 && !input.empty(); ++i) {
    const auto value = input.take<double>();
    row.scalars.push_back({to_string(input.part()), value});
  }
  TROUPE_CHECK(sink.write(row).ok() && sink.flush().ok(), "a row is not written");
  const auto back = apps::read_csv_metrics(path);
  TROUPE_CHECK(back.ok() && back->size() == 1 && back->front().env_steps == row.env_steps, "a row changed: {}",
               back.ok() ? "" : back.error().message);
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

}  // namespace

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(4)) {
    case 0:
      return table(choice.rest());
    case 1:
      return report(choice.rest());
    case 2:
      return row(choice);
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
          "\3one line\r\nand\x1b[31m \xc3\xa9 \xff\n"};
}

}  // namespace troupe::fuzz
