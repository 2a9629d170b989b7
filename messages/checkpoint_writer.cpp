// write_checkpoint(): files, manifest, commit, and removal of old checkpoints. The reader is checkpoint_reader.cpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
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

Error rename_error(const fs::path& from, const fs::path& to) {
  return {Code::kIo, fmt::format("checkpoint: rename {} to {}: {}", from.string(), to.string(), std::strerror(errno))};
}

/// Gives the finished directory its name. One of the same step is what `temporary` or the replaced name holds then.
/// rename() itself never takes the place of a directory that holds anything.
Status rename_into_place(const fs::path& temporary, const fs::path& path, const fs::path& replaced) {
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) return rename_error(temporary, path);
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return {};
  // NFS, CephFS and Lustre know no flags, and a kernel may not know the call: then in two steps, between which a reader
  // takes the replaced one.
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return rename_error(temporary, path);
  if (std::rename(path.c_str(), replaced.c_str()) != 0) return rename_error(path, replaced);
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Error error = rename_error(temporary, path);
  if (std::rename(replaced.c_str(), path.c_str()) != 0) log::warn("{}", rename_error(replaced, path).message);
  return error;
}

/// What a killed writer left: unfinished or half-removed directories, which only ever have our prefixes. A checkpoint
/// whose replacement has not got its name gets it back.
void remove_leftovers(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kReplacedPrefix)) {
      const fs::path own = directory / name.substr(std::string_view(kReplacedPrefix).size());
      if (!fs::exists(own, error) && std::rename(entry.path().c_str(), own.c_str()) == 0) continue;
    } else if (!name.starts_with(kTemporaryPrefix)) {
      continue;
    }
    fs::remove_all(entry.path(), error);
    if (error) log::warn("checkpoint: cannot remove {}: {}", entry.path().string(), error.message());
  }
}

void remove_one(const fs::path& directory, std::int64_t step) {
  // Renamed first, so that a half-removed directory is never taken for a damaged checkpoint.
  const fs::path path = directory / checkpoint_name(step);
  const fs::path doomed = directory / (kTemporaryPrefix + checkpoint_name(step));
  std::error_code error;
  fs::rename(path, doomed, error);
  if (!error) fs::remove_all(doomed, error);
  // An old checkpoint too many costs space only.
  if (error) log::warn("checkpoint: cannot remove {}: {}", path.string(), error.message());
}

void remove_old(const CheckpointWriteOptions& options) {
  std::vector<std::int64_t> steps = list_checkpoints(options.directory).steps;  // newest first
  std::erase_if(steps,
                [&](std::int64_t step) { return std::ranges::count(options.damaged, checkpoint_name(step)) != 0; });
  for (std::size_t i = static_cast<std::size_t>(options.keep); i < steps.size(); ++i) {
    remove_one(options.directory, steps[i]);
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

  const std::string name = checkpoint_name(contents.learner_step);
  const fs::path temporary = directory / (kTemporaryPrefix + name);
  if (!fs::create_directory(temporary, error) || error) {
    return Error{Code::kIo, fmt::format("checkpoint: create {}: {}", temporary.string(), error.message())};
  }
  Status written = write_files(temporary, contents);
  const fs::path replaced = directory / (kReplacedPrefix + name);
  if (written.ok()) written = rename_into_place(temporary, directory / name, replaced);
  if (!written.ok()) {
    fs::remove_all(temporary, error);
    return Error{written.error().code, fmt::format("{} not written: {}", name, written.error().message)};
  }
  TROUPE_TRY(fsync_directory(directory.string()));
  fs::remove_all(temporary, error);  // the replaced checkpoint of the same step, where there was one
  fs::remove_all(replaced, error);
  remove_old(options);
  return (directory / name).string();
}

void keep_checkpoints(const std::string& directory, std::span<const std::int64_t> steps) {
  remove_leftovers(directory);
  for (const std::int64_t step : list_checkpoints(directory).steps) {
    if (std::ranges::find(steps, step) == steps.end()) remove_one(directory, step);
  }
}

}  // namespace troupe::messages
