#include <troupe/learner/engine/pjrt/program_cache.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/cache_folder.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/sha256.hpp>

namespace troupe::learner {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "troupe program 1 ";
constexpr std::string_view kSuffix = ".program";
constexpr std::size_t kHashSize = 64;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The kind of processor and what it can do: programs for processors have its instructions.
std::string about_processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string about;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    if (line.starts_with("model name") || line.starts_with("flags")) about += line;
  }
  return about;
}

std::string key_of(const pjrt::Client& client, std::string_view stablehlo, const pjrt::CompileOptions& options) {
  Sha256 hash;
  const auto add = [&](std::string_view part) {
    hash.update(bytes_of(fmt::format("{} ", part.size())));
    hash.update(bytes_of(part));
  };
  add(kHead);
  add(stablehlo);
  add(pjrt::to_proto(options));
  // A plug-in's version may be that of the interface alone.
  const pjrt::Plugin& plugin = client.plugin();
  std::error_code unknown;
  add(fmt::format("{} {} {} {}", plugin.name(), plugin.minor(), fs::file_size(plugin.path(), unknown),
                  fs::last_write_time(plugin.path(), unknown).time_since_epoch().count()));
  add(client.platform());
  add(client.platform_version());
  add(std::to_string(client.devices()));
  if (const auto device = client.device(0); device.ok()) add(device->kind);
  if (client.is_host()) add(about_processor());
  for (const char* const name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    const char* const value = std::getenv(name);
    add(value == nullptr ? "" : value);
  }
  return to_hex(hash.finish());
}

/// What keep() wrote, or nothing where there is no such file. Errors: kCorrupt, kIo.
Result<std::optional<std::string>> kept(const std::string& path, std::uint64_t bytes_max) {
  const auto bytes = read_file(path, bytes_max);
  if (!bytes.ok() && bytes.error().code == Code::kNotFound) return std::optional<std::string>();
  if (!bytes.ok()) return bytes.error();
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const std::size_t head = kHead.size() + kHashSize;
  if (text.size() <= head || !text.starts_with(kHead) ||
      text.substr(kHead.size(), kHashSize) != sha256_hex(bytes_of(text.substr(head)))) {
    return Error{Code::kCorrupt, path + " is damaged"};
  }
  return std::optional<std::string>(text.substr(head));
}

/// Removes the files that were unused for longest, until the rest is no larger than bytes_max.
void make_room(const std::string& folder, std::uint64_t bytes_max) {
  struct File {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  std::uint64_t all = 0;
  std::error_code gone;  // by another process that makes room
  for (fs::directory_iterator each(folder, gone), end; !gone && each != end; each.increment(gone)) {
    if (each->path().extension() != kSuffix) continue;
    const File file{each->last_write_time(gone), each->file_size(gone), each->path()};
    if (gone) continue;
    all += file.bytes;
    files.push_back(file);
  }
  std::ranges::sort(files, {}, &File::used);
  for (const File& file : files) {
    if (all <= bytes_max) return;
    fs::remove(file.path, gone);
    all -= file.bytes;
  }
}

Status keep(const std::string& folder, const std::string& path, const pjrt::LoadedExecutable& program,
            std::uint64_t bytes_max) {
  TROUPE_ASSIGN(const std::string bytes, program.about().serialised());
  if (kHead.size() + kHashSize + bytes.size() > bytes_max) return {};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{Code::kIo, fmt::format("make {}: {}", folder, error.message())};
  TROUPE_TRY(write_file_atomic(path, std::string(kHead) + sha256_hex(bytes_of(bytes)) + bytes, 0600));
  make_room(folder, bytes_max);
  return {};
}

}  // namespace

ProgramCache::ProgramCache(std::string folder, std::uint64_t bytes_max)
    : folder_(std::move(folder)), bytes_max_(bytes_max) {}

Result<pjrt::LoadedExecutable> ProgramCache::program(const pjrt::Client& client, std::string_view stablehlo,
                                                     const pjrt::CompileOptions& options) const {
  if (folder_.empty()) return client.compile(stablehlo, options);
  const std::string path = fmt::format("{}/{}{}", folder_, key_of(client, stablehlo, options), kSuffix);
  const auto found = kept(path, bytes_max_);
  if (!found.ok()) log::warn("programs: {}; it is compiled again", found.error().message);
  if (found.ok() && *found) {
    auto loaded = client.load(**found);
    if (loaded.ok()) {
      std::error_code ignored;
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // used now: see make_room()
      return loaded;
    }
    log::warn("programs: {}: {}; it is compiled again", path, loaded.error().message);
  }
  auto made = client.compile(stablehlo, options);
  if (!made.ok()) return made;
  if (const Status written = keep(folder_, path, *made, bytes_max_); !written.ok()) {
    log::debug("programs: {}; it is compiled again next time", written.error().message);
  }
  return made;
}

const ProgramCache& program_cache() {
  static const ProgramCache cache(cache_folder("programs"));
  return cache;
}

}  // namespace troupe::learner
