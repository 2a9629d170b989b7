// A run directory that somebody watches, whose files are written by anybody: as they come, grow, are cut and are
// replaced. What the page, Prometheus and the terminal are told of it stays well-formed.
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include <troupe/core/clock.hpp>
#include <troupe/core/text.hpp>
#include <troupe/page/messages.hpp>
#include <troupe/page/prometheus.hpp>
#include <troupe/page/screen.hpp>
#include <troupe/page/watched_run.hpp>
#include <troupe/run/csv_cells.hpp>
#include <troupe/run/csv_table.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kChangesMax = 32;
constexpr const char* kFiles[] = {"status.json", "metrics.csv", "evaluations.csv", "channels.csv",
                                  "log.txt",     "config.toml", "summary.json"};

/// Replaces, adds to or cuts one of the files.
void change(const fs::path& run, Input& input) {
  const fs::path file = run / kFiles[input.choose(std::size(kFiles))];
  const std::size_t how = input.choose(3);
  const Bytes bytes = input.part();
  std::error_code ignored;
  if (how == 0) fs::remove(file, ignored);  // another inode, as an atomic write leaves it
  if (how == 2) fs::resize_file(file, bytes.size() % 64, ignored);
  std::ofstream(file, std::ios::binary | std::ios::app) << text_of(bytes);
}

void check_table(const apps::FollowedCsv& table) {
  for (const std::string& name : table.names()) {
    TROUPE_CHECK(printable(name, 8192) == name, "the name {}", name);
  }
  for (std::size_t column = 0; column < table.names().size() && table.rows() > 0; ++column) {
    const double last = table.cell(table.rows() - 1, column);
    if (table.is_text(column)) (void)table.text(last);
  }
}

void check_exposition(const page::WatchedRun& run) {
  page::Exposition exposition;
  exposition.add(run);
  const std::string text = exposition.text();
  for (const std::string_view line : lines(text)) {
    TROUPE_CHECK(line.starts_with("# ") || (line.starts_with("troupe_") && line.find("} ") != std::string_view::npos),
                 "the line {}", line);
  }
}

void check_screen(const page::WatchedRun& run, std::size_t columns) {
  const std::string text = screen_of(run, {.columns = columns, .rows = 24});
  for (const std::string_view line : lines(text)) {
    const auto shown = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
    TROUPE_CHECK(static_cast<std::size_t>(shown) <= columns, "a line of {} columns, not {}", shown, columns);
  }
}

/// Cells as they are written come back.
void check_cells(Input input) {
  std::vector<std::string> cells;
  std::string line;
  while (!input.empty() && cells.size() < 16) {
    cells.push_back(printable(to_string(input.part())));
    line += (cells.size() > 1 ? "," : "") + apps::csv_text(cells.back());
  }
  if (!cells.empty()) TROUPE_CHECK(apps::csv_cells(line) == cells, "the line {}", line);
}

void one_input(Bytes bytes) {
  Input input(bytes);
  if (input.choose(8) == 0) return check_cells(input);
  const apps::RunDirectory run{fs::path(scratch_folder()) / "run"};
  fs::remove_all(run.path);
  fs::create_directories(run.path);
  ManualClock clock;
  page::WatchedRun watched(run, nullptr, clock);
  page::Told told;
  for (int i = 0; i < kChangesMax && !input.empty(); ++i) {
    change(run.path, input);
    clock.advance(std::chrono::seconds(30));
    watched.refresh();
    check_table(watched.metrics());
    check_table(watched.evaluations());
    TROUPE_CHECK(nlohmann::json::accept(page::news_of(watched, told)), "news that are no JSON");
    check_exposition(watched);
    check_screen(watched, 80);
  }
}

std::vector<std::string> seeds() {
  const auto change = [](int file, int how, std::string_view text) {
    return std::string{static_cast<char>(file), static_cast<char>(how)} + part(text);
  };
  return {
      "\1" + change(0, 0, R"({"written_unix_s":5,"run":"r","term":1,"seconds":30.5,"trouble":["x"],"nodes":[{"name":"n",
"state":"up","silent_s":0}],"instances":[{"name":"actor-0","role":"actor","node":"n","state":"up","idle_s":3,"ports":
[{"name":"out","direction":"out","depth":4,"frames_per_s":10,"waited_s":9}]}],"channels":[{"from":"actor","from_port":
"out","to":"replay","to_port":"in","kind":"stream","capacity":4}],"groups":[{"name":"g","seats":2,"members":["g-0"],
"missing":[{"name":"g-1","state":"restarting"}],"hang":"x"}],"waits":["w"]})"),
      "\1" + change(1, 0, "wall_s,env_steps,learner_steps,actor/steps_per_s\n0.5,10,2,0.25\n1,20,3,") +
          change(1, 1, "7\n2,30,4,8\n") + change(1, 2, "0123456789"),
      "\1" + change(2, 0, "wall_s,source,step,env_steps,return\n1.5,evaluator,200,10,12.5\n2,\"a,b\",3,0,\n") +
          change(3, 0,
                 "wall_s,env_steps,learner_steps,role,port,frames_per_s,bytes_per_s,waiting,refused_per_s,depth\n"
                 "1,10,2,actor,out,2.5,100,0.25,0,\n"),
      "\1" + change(4, 0, "12:00:00.1 W a line\n") + change(5, 0, "env = \"a\"\nmax_minutes = 2\n") +
          change(6, 0, "{\"final_return\": {\"mean\": 5}}"),
      std::string(1, '\0') + part("a,\"b\"") + part("") + part("c")};
}

const Registered registered({"page", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
