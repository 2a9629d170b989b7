#include <troupe/core/lendable_memory.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include <troupe/core/detail/slots.hpp>

namespace troupe {
namespace {

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite = 23;
#endif

constexpr std::size_t granules(std::size_t bytes) {
  return (bytes + LendableMemory::kGranule - 1) / LendableMemory::kGranule;
}

Error failure(std::string_view what, std::size_t bytes) {
  return {Code::kIo, fmt::format("lendable memory: cannot {} {} bytes: {}", what, bytes, std::strerror(errno))};
}

/// Has the pages made in one call, which took 60 % of the time of faulting them in one by one, and turns running out of
/// memory into an answer instead of a SIGBUS. A kernel before 5.14 does not know the call and faults.
bool make_pages(std::byte* begin, std::size_t bytes) {
  return madvise(begin, bytes, kPopulateWrite) == 0 || errno == EINVAL;
}

}  // namespace

struct LendableMemory::State {
  explicit State(std::size_t count) : slots(count), touched(count) {}
  std::mutex mutex;  // of everything below
  SlotRuns slots;
  std::vector<bool> touched;  // by granule: its pages are there
  std::vector<std::weak_ptr<Lender>> lenders;
};

void LendableDeleter::operator()(std::byte* block) const { memory->give_back(block, bytes); }

Result<std::shared_ptr<LendableMemory>> LendableMemory::make() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L));
  std::size_t bytes = std::min(pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), kMost);
  rlimit files{};  // a larger one would end the process by a signal
  if (getrlimit(RLIMIT_FSIZE, &files) == 0) bytes = std::min<rlim_t>(bytes, files.rlim_cur);
  return make(bytes);
}

Result<std::shared_ptr<LendableMemory>> LendableMemory::make(std::size_t bytes) {
  if (bytes < kGranule || bytes > kMost) {
    return Error{Code::kInvalidArgument,
                 fmt::format("lendable memory: got {} bytes, expected {} to {}", bytes, kGranule, kMost)};
  }
  const std::size_t size = bytes / kGranule * kGranule;
  const int file = memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return failure("make a file of", size);
  void* data = MAP_FAILED;
  // Only this mapping can ever write, and nobody can cut the file under a reader's feet.
  if (ftruncate(file, static_cast<off_t>(size)) == 0 &&
      (data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)) != MAP_FAILED &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0 &&
      // Two processes that took blocks of it would write over each other's.
      madvise(data, size, MADV_DONTFORK) == 0) {
    (void)madvise(data, size, MADV_HUGEPAGE);  // where the system allows it for shared memory
    return std::shared_ptr<LendableMemory>(new LendableMemory(file, static_cast<std::byte*>(data), size));
  }
  const Error error = failure("map a sealed file of", size);
  if (data != MAP_FAILED) munmap(data, size);
  close(file);
  return error;
}

LendableMemory::LendableMemory(int file, std::byte* data, std::size_t size)
    : file_(file), data_(data), size_(size), process_(getpid()), state_(std::make_unique<State>(granules(size))) {}

LendableMemory::~LendableMemory() {
  if (getpid() == process_) munmap(data_, size_);  // a child may have something else there by now
  close(file_);
}

LendableArray LendableMemory::take(std::size_t bytes) {
  const std::size_t count = granules(bytes);
  if (getpid() != process_) return {};
  std::size_t first = 0;
  bool all_there = false;
  {
    const std::lock_guard lock(state_->mutex);
    const std::optional<std::size_t> run = state_->slots.take(count);
    if (!run) return {};
    first = *run;
    const auto begin = state_->touched.begin() + static_cast<std::ptrdiff_t>(first);
    all_there = std::find(begin, begin + static_cast<std::ptrdiff_t>(count), false) ==
                begin + static_cast<std::ptrdiff_t>(count);
  }
  LendableArray block(data_ + first * kGranule, LendableDeleter{shared_from_this(), bytes});
  if (all_there) return block;
  if (!make_pages(block.get(), count * kGranule)) return {};
  const std::lock_guard lock(state_->mutex);
  std::fill_n(state_->touched.begin() + static_cast<std::ptrdiff_t>(first), count, true);
  return block;
}

void LendableMemory::give_back(std::byte* block, std::size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->slots.give_back(static_cast<std::size_t>(block - data_) / kGranule, granules(bytes));
}

void LendableMemory::add(std::weak_ptr<Lender> lender) {
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->lenders, [](const auto& old) { return old.expired(); });
  state_->lenders.push_back(std::move(lender));
}

void LendableMemory::take_back() {
  std::vector<std::weak_ptr<Lender>> lenders;
  {
    const std::lock_guard lock(state_->mutex);
    lenders = state_->lenders;
  }
  for (const auto& lender : lenders) {
    if (const auto there = lender.lock()) there->take_back();
  }
}

std::optional<std::size_t> LendableMemory::offset_of(std::span<const std::byte> bytes) const {
  // As numbers: what lies elsewhere cannot be compared as pointers.
  const auto offset = reinterpret_cast<std::uintptr_t>(bytes.data()) - reinterpret_cast<std::uintptr_t>(data_);
  if (offset >= size_ || bytes.size() > size_ - offset) return std::nullopt;
  return offset;
}

}  // namespace troupe
