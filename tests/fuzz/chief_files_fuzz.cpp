// What a chief finds on disk when it comes back, its journal and the record of the last cut, and what nodes tell it for
// `troupe status`.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/actors/control/run_status.hpp>
#include <troupe/core/crc32c.hpp>
#include <troupe/core/sha256.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

using namespace actors;

bool equal(const ChiefJournal& a, const ChiefJournal& b) {
  return a.term == b.term && a.last_cut == b.last_cut && a.cuts_begun == b.cuts_begun && a.over == b.over &&
         a.nodes == b.nodes && a.instances == b.instances && a.joined == b.joined;
}

void journal(Bytes text) {
  const auto got = load_journal(scratch_file("journal.json", text));
  if (!got.ok()) return;
  const std::string again = scratch_folder() + "/again.json";
  TROUPE_CHECK(save_journal(again, *got).ok(), "what was read is not written");
  const auto back = load_journal(again);
  TROUPE_CHECK(back.ok() && equal(*back, *got), "a journal changed");
}

/// With the checksum that such a journal has.
std::string summed(Bytes content) {
  const auto json = nlohmann::ordered_json::parse(text_of(content), nullptr, false);
  if (json.is_discarded()) return to_string(content);
  const std::string text = json.dump();
  return nlohmann::ordered_json{{"version", 1}, {"crc32c", crc32c(bytes_of(text))}, {"journal", json}}.dump();
}

/// The same of a cut.
std::string summed_cut(Bytes manifest) {
  const auto json = nlohmann::json::parse(text_of(manifest), nullptr, false);
  if (json.is_discarded()) return to_string(manifest);
  const std::string text = json.dump();
  return nlohmann::json{{"manifest", json}, {"sha256", sha256_hex(bytes_of(text))}}.dump();
}

void cut(Bytes text) {
  scratch_file("cut.json", text);
  const auto got = newest_cut(scratch_folder());
  if (!got.ok()) return;
  CommittedCut written = *got;
  for (CutPart& part : written.parts) part.here = false;  // as it is found to be when it is committed
  commit_cut(scratch_folder(), *got, 1).value();
  TROUPE_CHECK(newest_cut(scratch_folder()).value() == written, "the cut {} changed", got->number);
}

void status(Bytes text) {
  const auto got = statuses_from_json(to_string(text));
  if (!got.ok()) return;
  const std::string first = to_json(*got);
  const auto again = statuses_from_json(first);
  TROUPE_CHECK(again.ok() && to_json(*again) == first, "a status of {} instances changed", got->size());
}

std::string file_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(5)) {
    case 0:
      return journal(choice.rest());
    case 1:
      return journal(bytes_of(summed(choice.rest())));
    case 2:
      return cut(choice.rest());
    case 3:
      return cut(bytes_of(summed_cut(choice.rest())));
    default:
      return status(choice.rest());
  }
}

std::vector<std::string> seeds() {
  const std::string path = scratch_folder() + "/seed.json";
  save_journal(path, {.term = 3,
                      .last_cut = 7,
                      .cuts_begun = 8,
                      .over = "",
                      .nodes = {{"replay", 2}},
                      .instances = {{"actor-1", 4}},
                      .joined = {{"actor-3", "actors-9"}}})
      .value();
  const std::string id(64, 'a');
  commit_cut(scratch_folder(), {7, {{"chief", id, {"metrics"}}, {"replay", id, {"replay-0"}}}}, 1).value();
  InstanceStatus status{
      .instance = "learner-0", .idle_s = 1.5, .waits_for = "batches", .why = "limiter", .version = 12};
  status.ports = {{"batches", true, 1, 20, 4000, 0.5}};
  const std::string journal = file_text(path);
  const std::size_t content = journal.find("{", 1);
  const std::string cut_file = file_text(scratch_folder() + "/cut.json");
  return {std::string(1, '\0') + journal, "\1" + journal.substr(content, journal.rfind('}') - content), "\2" + cut_file,
          "\3" + nlohmann::json::parse(cut_file)["manifest"].dump(),
          "\4" + to_json(std::vector<InstanceStatus>{status, {}})};
}

const Registered registered({"chief_files", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
