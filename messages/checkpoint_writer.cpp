// write_checkpoint(): files, manifest, commit, and removal of old checkpoints. The reader is checkpoint_reader.cpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/messages/detail/checkpoint_names.hpp>
#include <troupe/messages/detail/chunk_file.hpp>
#include <troupe/messages/detail/manifest.hpp>

namespace troupe::messages {
namespace {

namespace fs = std::filesystem;

Status check_contents(const CheckpointWriteOptions& options, const CheckpointContents& contents) {
  if (options.keep < 2) {
    return Error{Code::kInvalidArgument, fmt::format("checkpoint: keep is {}, expected at least 2", options.keep)};
  }
  TROUPE_TRY(check_file_name(contents.run_id, "checkpoint: run id"));
  if (contents.learner_step < 0) {
    return Error{Code::kInvalidArgument, fmt::format("checkpoint: learner step is {}", contents.learner_step)};
  }
  std::set<std::string_view> roles{kCountersRole};
  for (const RoleChunks& role : contents.roles) {
    TROUPE_TRY(check_file_name(role.role, "checkpoint: role"));
    if (role.role.size() > kMaxRoleBytes || !roles.insert(role.role).second) {
      return Error{Code::kInvalidArgument,
                   fmt::format("checkpoint: role {} comes twice, is \"{}\" or has more than {} characters", role.role,
                               kCountersRole, kMaxRoleBytes)};
    }
  }
  std::set<std::string_view> names;
  for (const Counter& counter : contents.counters) {
    if (!names.insert(counter.name).second) {
      return Error{Code::kInvalidArgument, fmt::format("checkpoint: counter {} comes twice", counter.name)};
    }
  }
  return {};
}

/// Creates one file, lets `write` fill it and makes it durable.
template <typename Write>
Status add_file(const fs::path& directory, const std::string& name, Manifest& manifest, Write write) {
  TROUPE_ASSIGN(FileWriter file, FileWriter::create((directory / name).string()));
  TROUPE_TRY(write(file));
  TROUPE_ASSIGN(FileWriter::Written written, file.finish());
  manifest.files.push_back({name, written.bytes, std::move(written.sha256)});
  return {};
}

Status write_tensors(FileWriter& file, const CheckpointContents& contents) {
  std::vector<std::size_t> order;
  TROUPE_ASSIGN(const auto header, safetensors_header(contents.tensors, {}, order));
  TROUPE_TRY(file.append(header));
  for (std::size_t index : order) TROUPE_TRY(file.append(contents.tensors[index].bytes));
  return {};
}

Status write_files(const fs::path& directory, const CheckpointContents& contents) {
  Manifest manifest{contents.run_id, contents.learner_step, {}};
  TROUPE_TRY(
      add_file(directory, kTensorsFile, manifest, [&](FileWriter& file) { return write_tensors(file, contents); }));
  for (const RoleChunks& role : contents.roles) {
    TROUPE_TRY(add_file(directory, role.role + kChunksSuffix, manifest,
                        [&](FileWriter& file) { return write_chunks(file, role); }));
  }
  TROUPE_TRY(add_file(directory, std::string(kCountersRole) + kChunksSuffix, manifest,
                      [&](FileWriter& file) { return write_counters(file, contents.counters); }));
  Manifest itself;  // not listed anywhere
  TROUPE_TRY(add_file(directory, kManifestFile, itself, [&](FileWriter& file) {
    const std::string text = encode_manifest(manifest);
    return file.append(std::as_bytes(std::span(text)));
  }));
  return fsync_directory(directory.string());
}

/// Gives the finished directory its name; one of the same step is exchanged, and is then the one called `temporary`.
Status rename_into_place(const fs::path& temporary, const fs::path& path) {
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST && renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    return {};
  }
  return Error{Code::kIo,
               fmt::format("checkpoint: rename {} to {}: {}", temporary.string(), path.string(), std::strerror(errno))};
}

/// What a killed writer left: unfinished or half-removed directories, which only ever have our prefix.
void remove_leftovers(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!entry.path().filename().string().starts_with(kTemporaryPrefix)) continue;
    fs::remove_all(entry.path(), error);
    if (error) log::warn("checkpoint: cannot remove {}: {}", entry.path().string(), error.message());
  }
}

void remove_old(const CheckpointWriteOptions& options) {
  std::vector<std::int64_t> steps = list_checkpoints(options.directory).steps;  // newest first
  std::erase_if(steps, [&](std::int64_t step) { return std::ranges::count(options.damaged, step_name(step)) != 0; });
  for (std::size_t i = static_cast<std::size_t>(options.keep); i < steps.size(); ++i) {
    // Renamed first, so that a half-removed directory is never taken for a damaged checkpoint.
    const fs::path path = fs::path(options.directory) / step_name(steps[i]);
    const fs::path doomed = fs::path(options.directory) / (kTemporaryPrefix + step_name(steps[i]));
    std::error_code error;
    fs::rename(path, doomed, error);
    if (!error) fs::remove_all(doomed, error);
    // The new checkpoint is safe; an old one too many costs space only.
    if (error) log::warn("checkpoint: cannot remove {}: {}", path.string(), error.message());
  }
}

}  // namespace

Result<std::string> write_checkpoint(const CheckpointWriteOptions& options, const CheckpointContents& contents) {
  TROUPE_TRY(check_contents(options, contents));
  const fs::path directory(options.directory);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return Error{Code::kIo, fmt::format("checkpoint: create {}: {}", directory.string(), error.message())};
  }
  TROUPE_TRY(fsync_directory(fs::absolute(directory).parent_path().string()));
  remove_leftovers(directory);

  const std::string name = step_name(contents.learner_step);
  const fs::path temporary = directory / (kTemporaryPrefix + name);
  if (!fs::create_directory(temporary, error) || error) {
    return Error{Code::kIo, fmt::format("checkpoint: create {}: {}", temporary.string(), error.message())};
  }
  Status written = write_files(temporary, contents);
  if (written.ok()) written = rename_into_place(temporary, directory / name);
  if (!written.ok()) {
    fs::remove_all(temporary, error);
    return Error{written.error().code, fmt::format("{} not written: {}", name, written.error().message)};
  }
  TROUPE_TRY(fsync_directory(directory.string()));
  fs::remove_all(temporary, error);  // the replaced checkpoint of the same step, where there was one
  remove_old(options);
  return (directory / name).string();
}

}  // namespace troupe::messages
