#include <troupe/learner/engine/cpu/plan_cache.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/crc32c.hpp>
#include <troupe/core/log.hpp>

namespace troupe::learner {
namespace {

constexpr std::string_view kHead = "troupe plans 1 crc32c ";
constexpr std::size_t kShapes = 4096;
constexpr std::uint64_t kBytes = 4U << 20;
constexpr auto kLockPatience = std::chrono::seconds(1);

std::string checksum(std::string_view text) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text.data(), text.size()))));
}

/// The part of `text` before `end`, which is taken off with it.
std::optional<std::string_view> take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return {};
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at + 1);
  return part;
}

/// "shape\tname micros\tname micros\t", without its line end.
std::optional<std::pair<std::string, MeasuredWays>> parse_line(std::string_view line) {
  const auto shape = take(line, '\t');
  if (!shape || shape->empty()) return {};
  MeasuredWays measured;
  while (!line.empty()) {
    const auto name = take(line, ' ');
    const auto number = name ? take(line, '\t') : std::nullopt;
    double micros = 0;
    if (!number || std::from_chars(number->begin(), number->end(), micros).ptr != number->end()) return {};
    measured.ways.push_back({std::string(*name), micros});
  }
  if (measured.ways.empty()) return {};
  return std::pair{std::string(*shape), std::move(measured)};
}

/// Nothing where a line, or the whole, is not what save() writes.
std::optional<std::map<std::string, MeasuredWays>> parse(std::string_view text, std::string_view processor) {
  const auto head = take(text, '\n');
  if (!head || *head != std::string(kHead) + checksum(text)) return {};
  std::map<std::string, MeasuredWays> shapes;
  const auto of = take(text, '\n');
  if (!of) return {};
  if (*of != processor) return shapes;  // another one of the same name
  while (!text.empty()) {
    const auto line = take(text, '\n');
    auto shape = line ? parse_line(*line) : std::nullopt;
    if (!shape) return {};
    shapes.insert(std::move(*shape));
  }
  return shapes;
}

/// Held by one process at a time, as far as the file system knows locks.
class Lock {
 public:
  static Result<Lock> take(const std::string& path) {
    Lock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.fd_ < 0) return Error{Code::kIo, fmt::format("open {}: {}", path, std::generic_category().message(errno))};
    const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
    while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      if (std::chrono::steady_clock::now() > deadline) {
        return Error{Code::kDeadlineExceeded, fmt::format("{} is held by another process", path)};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return lock;
  }
  Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Lock& operator=(Lock&&) = delete;
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit Lock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace

PlanCache::PlanCache(std::string folder, std::string processor)
    : folder_(std::move(folder)), processor_(std::move(processor)) {
  if (folder_.empty()) return;
  path_ = fmt::format("{}/{}.txt", folder_, checksum(processor_));
  auto kept = read();
  if (kept.ok()) {
    shapes_ = std::move(*kept);
  } else {
    log::warn("plans: {}; what is fastest here is measured again", kept.error().message);
  }
}

const MeasuredWays* PlanCache::find(const std::string& shape) const {
  const auto found = shapes_.find(shape);
  return found == shapes_.end() ? nullptr : &found->second;
}

void PlanCache::add(const std::string& shape, MeasuredWays ways) {
  if (shapes_.size() >= kShapes && !shapes_.contains(shape)) return;
  shapes_[shape] = std::move(ways);
  changed_ = true;
}

Result<std::map<std::string, MeasuredWays>> PlanCache::read() const {
  const auto bytes = read_file(path_, kBytes);
  if (!bytes.ok() && bytes.error().code == Code::kNotFound) return std::map<std::string, MeasuredWays>();
  if (!bytes.ok()) return bytes.error();
  auto shapes = parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, processor_);
  if (!shapes) return Error{Code::kCorrupt, path_ + " is damaged"};
  return std::move(*shapes);
}

Status PlanCache::save() {
  if (!changed_ || folder_.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return Error{Code::kIo, fmt::format("make {}: {}", folder_, error.message())};
  TROUPE_ASSIGN(const Lock lock, Lock::take(path_ + ".lock"));
  if (auto others = read(); others.ok()) shapes_.merge(*others);  // what is damaged was said and is replaced
  std::string text = processor_ + '\n';
  std::size_t count = 0;
  for (const auto& [shape, measured] : shapes_) {
    if (++count > kShapes) break;
    text += shape + '\t';
    for (const MeasuredWays::Way& way : measured.ways) text += fmt::format("{} {:.2f}\t", way.name, way.micros);
    text += '\n';
  }
  TROUPE_TRY(write_file_atomic(path_, std::string(kHead) + checksum(text) + '\n' + text));
  changed_ = false;
  return {};
}

}  // namespace troupe::learner
