// open_checkpoint(), open_newest_checkpoint() and what they return. Everything is read once into memory and verified
// there, so that what was verified is what is used.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/sha256.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/messages/detail/checkpoint_names.hpp>
#include <troupe/messages/detail/chunk_file.hpp>
#include <troupe/messages/detail/manifest.hpp>

namespace troupe::messages {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReplaced = kReplacedPrefix;

/// Where the checkpoint of this name is.
fs::path path_of(const std::string& directory, const std::string& name) {
  const fs::path path = fs::path(directory) / name;
  const fs::path replaced = fs::path(directory) / (kReplacedPrefix + name);
  std::error_code error;
  return !fs::exists(fs::symlink_status(path, error)) && fs::exists(fs::symlink_status(replaced, error)) ? replaced
                                                                                                         : path;
}

/// "step-000000200: replay.chunks: WHAT".
Error damaged(std::string_view name, std::string_view file, std::string_view what) {
  return Error{Code::kCorrupt, fmt::format("{}: {}: {}", name, file, what)};
}

/// The bytes of a listed file, exactly as they were written.
Result<std::vector<std::byte>> read_verified(const fs::path& directory, std::string_view name,
                                             const ManifestFile& file) {
  auto bytes = read_file((directory / file.name).string(), file.bytes);
  if (!bytes.ok()) {
    if (bytes.error().code == Code::kNotFound) return damaged(name, file.name, "is missing");
    return bytes.error().code == Code::kIo ? bytes.error() : damaged(name, file.name, bytes.error().message);
  }
  if (bytes->size() != file.bytes) {
    return damaged(name, file.name, fmt::format("got {} bytes, the manifest says {}", bytes->size(), file.bytes));
  }
  if (const std::string sha256 = sha256_hex(*bytes); sha256 != file.sha256) {
    return damaged(name, file.name, fmt::format("SHA-256 is {}, the manifest says {}", sha256, file.sha256));
  }
  return bytes;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:09}", step); }

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stop != end || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

CheckpointListing list_checkpoints(const std::string& directory) {
  CheckpointListing listing;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool replaced = name.starts_with(kReplacedPrefix);
    if (const auto step = parse_step_name(std::string_view(name).substr(replaced ? kReplaced.size() : 0))) {
      listing.steps.push_back(*step);
    } else {
      listing.unknown.push_back(name);
    }
  }
  std::ranges::sort(listing.steps, std::greater());
  // Clang 14 does not compile std::ranges::unique.
  listing.steps.erase(std::unique(listing.steps.begin(), listing.steps.end()), listing.steps.end());
  std::ranges::sort(listing.unknown);
  return listing;
}

Result<std::string> checkpoint_id(const std::string& directory, const std::string& name) {
  TROUPE_ASSIGN(const auto manifest, read_file((path_of(directory, name) / kManifestFile).string(), kMaxManifestBytes));
  return sha256_hex(manifest);
}

namespace {

/// A checkpoint's manifest, verified, and where it lies.
struct Found {
  fs::path path;
  std::string id;
  Manifest manifest;
};

Result<Found> find_checkpoint(const std::string& directory, const std::string& name) {
  const auto step = parse_step_name(name);
  if (!step) return Error{Code::kNotFound, fmt::format("\"{}\" is not the name of a checkpoint (step-NNN)", name)};
  Found found{.path = path_of(directory, name)};
  std::error_code error;
  const fs::file_status status = fs::symlink_status(found.path, error);
  if (status.type() == fs::file_type::not_found) {
    return Error{Code::kNotFound, fmt::format("{}: no such checkpoint", found.path.string())};
  }
  if (status.type() != fs::file_type::directory) return damaged(name, ".", "is not a directory (links are refused)");
  const auto bytes = read_file((found.path / kManifestFile).string(), kMaxManifestBytes);
  if (!bytes.ok()) return damaged(name, kManifestFile, bytes.error().message);
  auto manifest = parse_manifest(*bytes);
  if (!manifest.ok()) return damaged(name, kManifestFile, manifest.error().message);
  if (manifest->learner_step != *step) {
    return damaged(name, kManifestFile, fmt::format("is of step {}", manifest->learner_step));
  }
  found.id = sha256_hex(*bytes);
  found.manifest = *std::move(manifest);
  return found;
}

/// As read_verified(), without keeping the bytes.
Status verify_file(const fs::path& directory, std::string_view name, const ManifestFile& file) {
  const fs::path path = directory / file.name;
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::not_found) return damaged(name, file.name, "is missing");
  if (type != fs::file_type::regular) return damaged(name, file.name, "is not a regular file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Error{Code::kIo, fmt::format("open {}: {}", path.string(), std::strerror(errno))};
  std::vector<char> piece(std::size_t{1} << 20);
  Sha256 hash;
  std::uint64_t bytes = 0;
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())), stream.gcount() > 0) {
    const auto got = static_cast<std::size_t>(stream.gcount());
    hash.update(std::as_bytes(std::span(piece).first(got)));
    bytes += got;
  }
  if (stream.bad()) return Error{Code::kIo, fmt::format("read {}: {}", path.string(), std::strerror(errno))};
  if (bytes != file.bytes) {
    return damaged(name, file.name, fmt::format("got {} bytes, the manifest says {}", bytes, file.bytes));
  }
  if (const std::string sha256 = to_hex(hash.finish()); sha256 != file.sha256) {
    return damaged(name, file.name, fmt::format("SHA-256 is {}, the manifest says {}", sha256, file.sha256));
  }
  return {};
}

}  // namespace

Result<std::string> verify_checkpoint(const std::string& directory, const std::string& name) {
  TROUPE_ASSIGN(Found found, find_checkpoint(directory, name));
  for (const ManifestFile& file : found.manifest.files) TROUPE_TRY(verify_file(found.path, name, file));
  return std::move(found.id);
}

Result<OpenCheckpoint> open_checkpoint(const std::string& directory, const std::string& name) {
  TROUPE_ASSIGN(Found found, find_checkpoint(directory, name));
  const fs::path& path = found.path;
  const Manifest& manifest = found.manifest;

  OpenCheckpoint checkpoint;
  checkpoint.path = path.string();
  checkpoint.run_id = manifest.run_id;
  checkpoint.learner_step = manifest.learner_step;
  bool tensors_found = false, counters_found = false;
  for (const ManifestFile& file : manifest.files) {
    TROUPE_ASSIGN(std::vector<std::byte> bytes, read_verified(path, name, file));
    if (file.name == kTensorsFile) {
      tensors_found = true;
      checkpoint.tensor_file_ = std::move(bytes);
      auto parsed = parse_safetensors(checkpoint.tensor_file_);
      if (!parsed.ok()) return damaged(name, file.name, parsed.error().message);
      checkpoint.tensors = std::move(parsed->tensors);
      continue;
    }
    if (!file.name.ends_with(kChunksSuffix)) return damaged(name, file.name, "is of a kind that is not known");
    std::string role = file.name.substr(0, file.name.size() - std::string_view(kChunksSuffix).size());
    if (role == kCountersRole) {
      counters_found = true;
      auto parsed = parse_counters(bytes);
      if (!parsed.ok()) return damaged(name, file.name, parsed.error().message);
      checkpoint.counters = *std::move(parsed);
      continue;
    }
    auto parsed = parse_chunks(bytes, role);
    if (!parsed.ok()) return damaged(name, file.name, parsed.error().message);
    checkpoint.roles.push_back({std::move(role), *std::move(parsed)});
  }
  if (!tensors_found || !counters_found) return damaged(name, kManifestFile, "does not list tensors and counters");
  return checkpoint;
}

Result<OpenCheckpoint> open_newest_checkpoint(const std::string& directory) {
  CheckpointListing listing = list_checkpoints(directory);
  if (listing.steps.empty()) return Error{Code::kNotFound, fmt::format("{}: there is no checkpoint", directory)};
  std::vector<RejectedCheckpoint> rejected;
  for (std::int64_t step : listing.steps) {
    auto opened = open_checkpoint(directory, checkpoint_name(step));
    if (opened.ok()) {
      opened->rejected = std::move(rejected);
      opened->unknown = std::move(listing.unknown);
      return opened;
    }
    rejected.push_back({checkpoint_name(step), opened.error().message});
  }
  std::string message = fmt::format("{}: none of {} checkpoints is usable", directory, rejected.size());
  for (const RejectedCheckpoint& one : rejected) message += "; " + one.reason;
  return Error{Code::kCorrupt, std::move(message)};
}

const TensorBytes* OpenCheckpoint::find_tensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &TensorBytes::name);
  return found == tensors.end() ? nullptr : &*found;
}

const std::vector<std::vector<std::byte>>* OpenCheckpoint::find_role(std::string_view role) const {
  const auto found = std::ranges::find(roles, role, &RoleChunks::role);
  return found == roles.end() ? nullptr : &found->chunks;
}

Result<std::int64_t> OpenCheckpoint::counter(std::string_view name) const {
  const auto found = std::ranges::find(counters, name, &Counter::name);
  if (found != counters.end()) return found->value;
  return Error{Code::kNotFound, fmt::format("{}: there is no counter \"{}\"", path, name)};
}

}  // namespace troupe::messages
