// The files of a checkpoint: the manifest, chunks of roles, counters, and a whole folder of them whose sums are right.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/crc32c.hpp>
#include <troupe/core/sha256.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/messages/detail/chunk_file.hpp>
#include <troupe/messages/detail/manifest.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

using namespace messages;
namespace fs = std::filesystem;

constexpr std::size_t kRecordHeader = 16;
const std::string kRole = "replay-0";

void manifest(Bytes text) {
  const auto got = parse_manifest(text);
  if (!got.ok()) return;
  TROUPE_CHECK(encode_manifest(*got) == text_of(text), "a manifest changed");
  for (const ManifestFile& file : got->files) TROUPE_CHECK(check_file_name(file.name, "").ok(), "{}", file.name);
}

/// A record's size and checksum are made right for all that follows.
std::vector<std::byte> record(Bytes message) {
  std::vector<std::byte> bytes(kRecordHeader);
  bytes.insert(bytes.end(), message.begin(), message.end());
  bytes.resize((std::max<std::size_t>(bytes.size(), kRecordHeader + 16) + 7) / 8 * 8);
  store(bytes, 0, std::uint32_t{0x4b435254});  // "TRCK"
  store(bytes, 8, static_cast<std::uint64_t>(bytes.size() - kRecordHeader));
  store(bytes, kRecordHeader, static_cast<std::uint64_t>((bytes.size() - kRecordHeader) / 8 - 1) << 32);
  store(bytes, 4, crc32c(std::span(bytes).subspan(8)));
  return bytes;
}

std::string written(const std::function<Status(FileWriter&)>& write) {
  const std::string path = scratch_folder() + "/written";
  fs::remove(path);
  auto file = FileWriter::create(path).value();
  write(file).value();
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void chunks(Bytes file) {
  const auto got = parse_chunks(file, kRole);
  if (!got.ok()) return;
  const std::string again = written([&](FileWriter& to) { return write_chunks(to, {kRole, *got}); });
  TROUPE_CHECK(parse_chunks(bytes_of(again), kRole).value() == *got, "chunks changed");
}

void counters(Bytes file) {
  const auto got = parse_counters(file);
  if (!got.ok()) return;
  const std::string again = written([&](FileWriter& to) { return write_counters(to, *got); });
  TROUPE_CHECK(parse_counters(bytes_of(again)).value() == *got, "counters changed");
}

/// The parts become files of a checkpoint with a manifest that is true of them.
void folder(Input input) {
  const fs::path place = fs::path(scratch_folder()) / "checkpoints" / "step-000000007";
  fs::create_directories(place);
  Manifest manifest{"run-1", 7, {}};
  for (const char* name : {"tensors.safetensors", "counters.chunks", "replay-0.chunks"}) {
    const Bytes bytes = input.part();
    scratch_file("checkpoints/step-000000007/" + std::string(name), bytes);
    manifest.files.push_back({name, bytes.size(), sha256_hex(bytes)});
  }
  scratch_file("checkpoints/step-000000007/manifest.json", bytes_of(encode_manifest(manifest)));
  const auto got = open_newest_checkpoint(place.parent_path().string());
  if (got.ok()) TROUPE_CHECK(got->learner_step == 7 && got->run_id == "run-1", "step {}", got->learner_step);
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(7)) {
    case 0:
      return manifest(choice.rest());
    case 1:  // with the sum that such a body has: {"manifest": BODY, "sha256": ...}, as encode_manifest() lays it out
      return manifest(bytes_of("{\n  \"manifest\": " + to_string(choice.rest()) + ",\n  \"sha256\": \"" +
                               sha256_hex(choice.rest()) + "\"\n}\n"));
    case 2:
      return chunks(choice.rest());
    case 3:
      return chunks(record(choice.rest()));
    case 4:
      return counters(choice.rest());
    case 5:
      return counters(record(choice.rest()));
    default:
      return folder(choice);
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  const Manifest sample{"run-1", 200, {{"tensors.safetensors", 80, std::string(64, 'a')}, {"a.chunks", 0, "b"}}};
  all.push_back(std::string(1, '\0') + encode_manifest(sample));
  all.push_back("\1{\n    \"files\": [],\n    \"format\": 1,\n    \"learner_step\": 5,\n    \"run_id\": \"r\"\n  }");
  const std::string two = written([](FileWriter& to) {
    return write_chunks(to, {kRole, {{std::byte{1}, std::byte{2}}, std::vector<std::byte>(9, std::byte{7})}});
  });
  const std::string one = written([](FileWriter& to) { return write_chunks(to, {kRole, {{std::byte{1}}}}); });
  const std::string sums = written([](FileWriter& to) {
    return write_counters(to, std::vector<Counter>{{"learner/steps", 60}, {"env_steps", -1}});
  });
  all.push_back("\2" + two);
  all.push_back("\3" + one.substr(kRecordHeader));
  all.push_back("\4" + sums);
  all.push_back("\5" + sums.substr(kRecordHeader));
  const std::vector<std::byte> value(4);
  const std::vector<TensorBytes> tensors = {{"critic/parameters", DType::kF32, {1}, value}};
  all.push_back("\6" + part(to_string(encode_safetensors(tensors, {}).value())) + part(sums) + part(two));
  return all;
}

const Registered registered({"checkpoint", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
