#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>
#include <vector>

#include <troupe/collectives/detail/sealed_file.hpp>
#include <troupe/collectives/detail/shared_region.hpp>
#include <troupe/core/pause_briefly.hpp>
#include <troupe/core/round_up.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr std::uint64_t kMagic = 0x31454d4550555254;
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = 4096;
// For the pieces that ranks are at: far longer than the longest takes, also on a busy machine.
constexpr auto kStillness = std::chrono::milliseconds(50);
constexpr int kHomeLooks = 20;  // some 1 us: what it takes to move a small call's values from another core's cache

constexpr std::size_t result_bytes(int size) {
  return round_up(kChunkBytes / static_cast<std::size_t>(size) + kCacheLine, kPage);
}
constexpr std::size_t rank_bytes(int size) { return kBuffers * (kChunkBytes + result_bytes(size)); }

// Which pieces of a call nobody has taken, in one word. The call is known by the pieces before it, counted from 1 (so
// that a word of zero is no call's) and cut to what has room: neighbours differ by less than that.
struct Left {
  std::uint64_t call = 0, first = 0, end = 0;
};
constexpr int kPieceBits = 21;
constexpr std::uint64_t kCalls = std::uint64_t{1} << (64 - 2 * kPieceBits);
static_assert(Pieces::kMax < std::uint64_t{1} << kPieceBits && Pieces::kMax < kCalls);

constexpr std::uint64_t pack(const Left& left) {
  return left.call << (2 * kPieceBits) | left.first << kPieceBits | left.end;
}
constexpr Left unpack(std::uint64_t word) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kPieceBits) - 1;
  return {.call = word >> (2 * kPieceBits), .first = word >> kPieceBits & kMask, .end = word & kMask};
}

/// FNV-1a; the ranks are one user's, so it need not withstand anybody.
struct Digest {
  std::uint64_t value = 0xcbf29ce484222325;
  void add(const void* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      value = (value ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
    }
  }
  void add(std::uint64_t word) { value = (value ^ word) * 0x9e3779b97f4a7c15 + (value >> 29); }
};

}  // namespace

void CallSlot::write(const Call& call, double call_weight, const SharedPlace& values) {
  Digest all;
  all.add(call.name.data(), call.name.size());
  for (const std::int64_t dim : call.shape.dims()) all.add(static_cast<std::uint64_t>(dim));
  all.add(call.count);
  all.add(static_cast<std::uint64_t>(call.shape.rank()));
  all.add(static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.op) << 8 |
          static_cast<std::uint64_t>(call.wire) << 16 | static_cast<std::uint64_t>(call.dtype) << 24 |
          static_cast<std::uint64_t>(call.root) << 32);
  digest = all.value;
  weight = call_weight;
  count = call.count;
  std::copy(call.shape.dims().begin(), call.shape.dims().end(), dims.begin());
  dim_count = call.shape.rank();
  root = call.root;
  kind = call.kind;
  op = call.op;
  wire = call.wire;
  dtype = call.dtype;
  name_length = static_cast<std::uint16_t>(std::min(call.name.size(), name.size()));
  std::copy_n(call.name.data(), name_length, name.begin());
  place = values;
}

Call CallSlot::read() const {
  return {.kind = kind,
          .name = std::string(name.data(), name_length),
          .count = count,
          .op = op,
          .root = root,
          .shape = Shape(std::span(dims.data(), static_cast<std::size_t>(dim_count))),
          .wire = wire,
          .dtype = dtype};
}

struct SharedRegion::Header {
  std::uint64_t magic;
  std::uint64_t secret;
  std::uint64_t epoch;
  std::int32_t size;
  alignas(128) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> sleepers;
  alignas(128) std::atomic<std::uint32_t> failed;  // 0: no; 1: being written; 2: yes
  std::int32_t failure_code;
  std::uint32_t failure_length;
  std::array<char, 1500> failure;
  std::atomic<std::uint64_t> verdicts;           // calls up to this one have had theirs
  alignas(128) std::atomic<std::uint64_t> left;  // pieces that nobody has taken; in one line with
  std::atomic<std::uint64_t> done;               // those, for a small call's only piece, and
  std::atomic<std::int32_t> home;                // the core that did the last of these
};

std::size_t SharedRegion::bytes_for(int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return round_up(sizeof(Header), kPage) + round_up(ranks * sizeof(RankLines), kPage) + ranks * rank_bytes(size);
}

SharedRegion::SharedRegion(std::byte* memory, std::size_t bytes, int size, int file)
    : memory_(memory),
      bytes_(bytes),
      size_(size),
      file_(file),
      header_(reinterpret_cast<Header*>(memory_)),
      lines_(reinterpret_cast<RankLines*>(memory_ + round_up(sizeof(Header), kPage))),
      buffers_(memory_ + bytes - static_cast<std::size_t>(size) * rank_bytes(size)) {}

SharedRegion::~SharedRegion() {
  munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

Result<std::shared_ptr<SharedRegion>> SharedRegion::create(const GroupView& view) {
  TROUPE_ASSIGN(const SealedFile file, make_sealed_file("troupe-collectives", bytes_for(view.size)));
  const Result<std::byte*> memory = map_sealed_file(file);  // zero bytes are a valid region without ranks
  if (!memory.ok()) {
    close(file.file);
    return memory.error();
  }
  std::shared_ptr<SharedRegion> region(new SharedRegion(*memory, file.bytes, view.size, file.file));
  Header& header = *region->header_;
  std::uint64_t secret = 0;
  if (getrandom(&secret, sizeof secret, 0) != sizeof secret) {
    return Error{Code::kIo, fmt::format("shared memory: getrandom: {}", std::strerror(errno))};
  }
  header.secret = secret;
  header.epoch = view.epoch;
  header.size = view.size;
  header.magic = kMagic;
  region->ticket_ = fmt::format("{} {} {} {}", getpid(), file.file, file.bytes, secret);
  return region;
}

Result<std::shared_ptr<SharedRegion>> SharedRegion::open(std::string_view ticket, const GroupView& view) {
  std::array<std::uint64_t, 4> numbers{};  // process, file, bytes, secret
  const char* at = ticket.data();
  const char* const end = at + ticket.size();
  for (std::uint64_t& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) return Error{Code::kCorrupt, fmt::format("shared memory: \"{}\" is no ticket", ticket)};
    at = next;
  }
  const auto [process, number, bytes, secret] = numbers;
  const bool can_be = bytes >= sizeof(Header) && number <= INT32_MAX && process <= INT32_MAX;
  if (!can_be) return Error{Code::kCorrupt, fmt::format("shared memory: \"{}\" is no ticket", ticket)};
  TROUPE_ASSIGN(std::byte* const memory,
                map_peer_file(static_cast<std::int64_t>(process), {.file = static_cast<int>(number), .bytes = bytes}));
  const Header& header = *reinterpret_cast<const Header*>(memory);
  if (header.magic != kMagic || header.secret != secret || header.size < 1 || header.size > kMaxSharedRanks ||
      bytes_for(header.size) != bytes) {
    munmap(memory, bytes);
    return Error{Code::kCorrupt, fmt::format("shared memory: what is at \"{}\" is not the ticket's", ticket)};
  }
  std::shared_ptr<SharedRegion> region(new SharedRegion(memory, bytes, header.size, -1));
  region->ticket_ = ticket;
  if (header.epoch != view.epoch || header.size != view.size) {
    const Error error{Code::kShapeMismatch,
                      fmt::format("group of epoch {}: rank {} says that it has {} ranks, rank 0 says {} in epoch {}",
                                  view.epoch, view.rank, view.size, header.size, header.epoch)};
    region->fail(error);
    return error;
  }
  return region;
}

float* SharedRegion::buffer(int rank, std::uint64_t chunk, int kind) {
  const std::size_t of_rank = static_cast<std::size_t>(rank) * rank_bytes(size_);
  const std::size_t index = chunk % kBuffers;
  const std::size_t within = kind == 0 ? index * kChunkBytes : kBuffers * kChunkBytes + index * result_bytes(size_);
  return reinterpret_cast<float*>(buffers_ + of_rank + within);
}

std::size_t SharedRegion::slice_begin(std::size_t count, int rank) const {
  constexpr std::size_t kLine = kCacheLine / sizeof(float);
  const std::size_t lines = (count + kLine - 1) / kLine;
  return std::min(count, lines * static_cast<std::size_t>(rank) / static_cast<std::size_t>(size_) * kLine);
}

bool SharedRegion::all_reached(std::uint64_t published) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (!reached(rank, published)) return false;
  }
  return true;
}

void SharedRegion::publish(int rank) {
  std::atomic<std::uint64_t>& mine = lines_[rank].published;
  const std::uint64_t published = mine.load(std::memory_order_relaxed) + 1;
  lines_[rank].core.store(sched_getcpu(), std::memory_order_relaxed);
  // Sequentially consistent with await(): either a sleeper is seen here, or it sees this. And of those who publish the
  // same thing at once, one at least sees that all have.
  mine.exchange(published, std::memory_order_seq_cst);
  if (header_->sleepers.load(std::memory_order_seq_cst) > 0 && all_reached(published)) ring();
}

std::optional<std::uint64_t> SharedRegion::take_piece(int rank, const Pieces& pieces) {
  // Sequentially consistent with await_stillness(): either this rank sees that the group is broken, or it is seen.
  std::atomic<std::uint32_t>& at_work = lines_[rank].at_work;
  at_work.store(1, std::memory_order_seq_cst);
  const std::uint64_t call = (pieces.before + 1) % kCalls;
  const int core = sched_getcpu();
  const bool at_end = core % 2 == 1;
  if (pieces.count == 1 && header_->home.load(std::memory_order_relaxed) != core) leave_to_home(call);
  std::uint64_t seen = header_->left.load(std::memory_order_relaxed);
  while (header_->failed.load(std::memory_order_seq_cst) == 0) {
    Left left = unpack(seen);
    // All that an earlier call had is done, since its ranks have come to this one.
    if (left.call != call) left = {.call = call, .first = 0, .end = pieces.count};
    if (left.first == left.end) break;
    const std::uint64_t piece = at_end ? --left.end : left.first++;
    if (header_->left.compare_exchange_weak(seen, pack(left), std::memory_order_relaxed)) {
      if (pieces.count == 1) header_->home.store(core, std::memory_order_relaxed);
      return piece;
    }
  }
  at_work.store(0, std::memory_order_release);
  return std::nullopt;
}

void SharedRegion::leave_to_home(std::uint64_t call) const {
  for (int look = 0; look < kHomeLooks; ++look) {
    if (unpack(header_->left.load(std::memory_order_relaxed)).call == call) return;
    pause_briefly();
  }
}

void SharedRegion::finish_piece(int rank, const Pieces& pieces) {
  const std::uint64_t done = header_->done.fetch_add(1, std::memory_order_seq_cst) + 1;
  lines_[rank].at_work.store(0, std::memory_order_release);
  if (done == pieces.end() && header_->sleepers.load(std::memory_order_seq_cst) > 0) ring();
}

std::uint64_t SharedRegion::done() const { return header_->done.load(std::memory_order_acquire); }

bool SharedRegion::await_stillness(int rank) const {
  const TimePoint until = std::chrono::steady_clock::now() + kStillness;
  for (int other = 0; other < size_; ++other) {
    while (other != rank && lines_[other].at_work.load(std::memory_order_seq_cst) != 0) {
      if (std::chrono::steady_clock::now() > until) return false;
      sched_yield();
    }
  }
  return true;
}

void SharedRegion::ring() {
  header_->bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &header_->bell, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

bool SharedRegion::await_briefly(const Awaited& awaited) {
  return brief_wait_.until([&] { return has(awaited) || failed(); }, [&] { return needs_this_core(awaited); });
}

bool SharedRegion::needs_this_core(const Awaited& awaited) const {
  const int core = sched_getcpu();
  for (int rank = 0; rank < size_; ++rank) {
    const RankLines& lines = lines_[rank];
    if (lines.core.load(std::memory_order_relaxed) != core) continue;
    const bool is_awaited = awaited.published != Awaited::kNever ? !reached(rank, awaited.published)
                                                                 : lines.at_work.load(std::memory_order_relaxed) != 0;
    if (is_awaited) return true;
  }
  return false;
}

void SharedRegion::await(const Awaited& awaited, TimePoint until) {
  header_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const std::uint32_t bell = header_->bell.load(std::memory_order_seq_cst);
    if (has(awaited) || failed()) break;
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    const timespec timeout{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    syscall(SYS_futex, &header_->bell, FUTEX_WAIT, bell, &timeout, nullptr, 0);
  }
  header_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void SharedRegion::fail(const Error& error) {
  std::uint32_t expected = 0;
  if (header_->failed.compare_exchange_strong(expected, 1)) {
    header_->failure_code = static_cast<std::int32_t>(error.code);
    header_->failure_length = static_cast<std::uint32_t>(std::min(error.message.size(), header_->failure.size()));
    std::copy_n(error.message.data(), header_->failure_length, header_->failure.begin());
    header_->failed.store(2);
  }
  ring();
}

bool SharedRegion::failed() const { return header_->failed.load(std::memory_order_acquire) != 0; }

std::optional<Error> SharedRegion::failure() const {
  if (!failed()) return std::nullopt;
  // Whoever writes it needs well under a microsecond, unless it was killed or stopped just then.
  const TimePoint until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (header_->failed.load(std::memory_order_acquire) != 2) {
    if (std::chrono::steady_clock::now() > until) {
      return Error{Code::kCancelled, "collective: a rank broke the group and did not say why"};
    }
    sched_yield();
  }
  const std::size_t length = std::min<std::size_t>(header_->failure_length, header_->failure.size());
  return Error{static_cast<Code>(header_->failure_code), std::string(header_->failure.data(), length)};
}

bool SharedRegion::claim_verdict(std::uint64_t call) {
  std::uint64_t given = header_->verdicts.load();
  return given <= call && header_->verdicts.compare_exchange_strong(given, call + 1);
}

}  // namespace troupe::collectives::detail
