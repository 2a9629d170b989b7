#pragma once
// A disk in memory that fails, dies or loses its power when told to. What was not synced is at its mercy; names follow
// the order of a journaling file system, so that a power cut keeps a first part of what was done to them.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/replay/journal_folder.hpp>

namespace troupe::replay {

class FakeDisk {
 public:
  explicit FakeDisk(std::uint64_t seed) : rng_(seed) {}

  /// The folder as a process sees it. It goes on being there after a crash; the process's handles do not.
  std::shared_ptr<JournalFolder> folder() { return std::make_shared<Folder>(*this, life_); }

  /// The process dies in its n-th operation from now on.
  void die_after(std::uint64_t operations) {
    const std::lock_guard lock(mutex_);
    die_at_ = operations_ + operations;
  }
  bool dead() const {
    const std::lock_guard lock(mutex_);
    return dead_;
  }
  /// Probability of failure for an operation that can fail for want of space or for a bad disk.
  void fail_with(double probability) {
    const std::lock_guard lock(mutex_);
    fail_ = probability;
  }

  /// The process is gone; what it wrote is still there.
  void kill() {
    ++life_;
    dead_ = false;
    die_at_ = std::numeric_limits<std::uint64_t>::max();
  }
  /// The machine is gone, too: unsynced bytes are cut, zeroed, replaced by others or kept, in blocks.
  void cut_power() {
    kill();
    const auto keep = static_cast<std::size_t>(rng_.below(pending_names_.size() + 1));
    for (std::size_t i = 0; i < keep; ++i) pending_names_[i](durable_names_);
    pending_names_.clear();
    names_ = durable_names_;
    for (auto& [name, file] : names_) {
      // A new inode, so that nothing of the former is shared with a name that is gone.
      auto after = std::make_shared<File>(*file);
      const std::size_t durable = after->durable.size();
      after->bytes.resize(durable + rng_.below(after->bytes.size() - durable + 1));
      std::copy(after->durable.begin(), after->durable.end(), after->bytes.begin());
      for (std::size_t block = durable; block < after->bytes.size(); block += 64) {
        const bool kept = block < after->lost_from && rng_.below(2) == 0;
        const bool zero = rng_.below(2) == 0;
        for (std::size_t i = block; !kept && i < std::min(block + 64, after->bytes.size()); ++i) {
          after->bytes[i] = zero ? std::byte{0} : static_cast<std::byte>(rng_.below(256));
        }
      }
      if (after->overwritten && rng_.below(2) == 0) after->bytes = *after->overwritten;
      after->durable = after->bytes;
      after->overwritten.reset();
      after->lost_from = std::numeric_limits<std::size_t>::max();
      file = std::move(after);
    }
    durable_names_ = names_;
  }

  /// For tests that damage files.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, file] : names_) names.push_back(name);
    return names;
  }
  std::vector<std::byte>& bytes(const std::string& name) { return names_.at(name)->bytes; }
  void erase(const std::string& name) { names_.erase(name); }
  void swap(const std::string& a, const std::string& b) { std::swap(names_.at(a), names_.at(b)); }

  /// The whole disk, to go back to.
  std::map<std::string, std::vector<std::byte>> snapshot() const {
    std::map<std::string, std::vector<std::byte>> files;
    for (const auto& [name, file] : names_) files[name] = file->bytes;
    return files;
  }
  void put_back(const std::map<std::string, std::vector<std::byte>>& files) {
    kill();
    names_.clear();
    for (const auto& [name, bytes] : files) {
      names_[name] = std::make_shared<File>();
      names_[name]->bytes = names_[name]->durable = bytes;
    }
    durable_names_ = names_;
    pending_names_.clear();
  }

 private:
  struct File {
    std::vector<std::byte> bytes;
    std::vector<std::byte> durable;                                   // a first part of bytes
    std::optional<std::vector<std::byte>> overwritten;                // what overwrite() replaced and did not sync
    std::size_t lost_from = std::numeric_limits<std::size_t>::max();  // pages that a failed sync dropped
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;

  /// What becomes of an operation. The one that the process dies in may still take effect, as a whole or in part.
  enum class Fate { kDone, kFailed, kGone };

  class Handle final : public JournalFile {
   public:
    Handle(FakeDisk& disk, std::uint64_t life, std::shared_ptr<File> file)
        : disk_(disk), life_(life), file_(std::move(file)) {}
    Status append(std::span<const std::byte> bytes) override {
      const std::lock_guard lock(disk_.mutex_);
      const Fate fate = disk_.fate(life_);
      if (fate == Fate::kGone) return error();
      if (fate == Fate::kFailed) bytes = bytes.first(disk_.rng_.below(bytes.size() + 1));
      file_->bytes.insert(file_->bytes.end(), bytes.begin(), bytes.end());
      return fate == Fate::kDone ? Status{} : error();
    }
    Status sync() override {
      const std::lock_guard lock(disk_.mutex_);
      const Fate fate = disk_.fate(life_);
      if (fate == Fate::kGone) return error();
      if (fate == Fate::kFailed) {
        file_->lost_from = std::min(file_->lost_from, file_->durable.size());
        return error();
      }
      // What a failed sync dropped is clean now, and never written: a later success lies about it.
      const std::size_t end = std::min(file_->bytes.size(), file_->lost_from);
      file_->durable.assign(file_->bytes.begin(), file_->bytes.begin() + static_cast<std::ptrdiff_t>(end));
      return {};
    }

   private:
    FakeDisk& disk_;
    const std::uint64_t life_;
    const std::shared_ptr<File> file_;
  };

  class Folder final : public JournalFolder {
   public:
    Folder(FakeDisk& disk, std::uint64_t life) : disk_(disk), life_(life) {}
    std::string path() const override { return "fake"; }
    Result<std::vector<std::string>> list() override { return disk_.names(); }
    Result<std::uint64_t> size(const std::string& name) override {
      const std::lock_guard lock(disk_.mutex_);
      const auto file = disk_.names_.find(name);
      if (file == disk_.names_.end()) return Error{Code::kNotFound, name};
      return file->second->bytes.size();
    }
    Result<std::size_t> read(const std::string& name, std::uint64_t offset, std::span<std::byte> out) override {
      const std::lock_guard lock(disk_.mutex_);
      const auto file = disk_.names_.find(name);
      if (file == disk_.names_.end()) return Error{Code::kNotFound, name};
      const auto& bytes = file->second->bytes;
      const std::size_t count = offset >= bytes.size() ? 0 : std::min(out.size(), bytes.size() - offset);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), count, out.begin());
      return count;
    }
    Result<std::shared_ptr<JournalFile>> create(const std::string& name) override {
      const std::lock_guard lock(disk_.mutex_);
      if (disk_.names_.contains(name)) return Error{Code::kAlreadyExists, name};
      auto file = std::make_shared<File>();
      TROUPE_TRY(disk_.change(life_, [=](Names& names) { names[name] = file; }));
      return std::shared_ptr<JournalFile>(std::make_shared<Handle>(disk_, life_, std::move(file)));
    }
    Status overwrite(const std::string& name, std::span<const std::byte> bytes, bool sync) override {
      const std::lock_guard lock(disk_.mutex_);
      if (!disk_.names_.contains(name)) {
        auto made = std::make_shared<File>();
        TROUPE_TRY(disk_.change(life_, [=](Names& names) { names[name] = made; }));
      }
      if (disk_.fate(life_) != Fate::kDone) return error();
      File& file = *disk_.names_.at(name);
      if (!file.overwritten) file.overwritten = file.bytes;
      file.bytes.assign(bytes.begin(), bytes.end());
      file.durable = file.bytes;
      if (sync) file.overwritten.reset();
      return {};
    }
    Status rename(const std::string& from, const std::string& to) override {
      const std::lock_guard lock(disk_.mutex_);
      return disk_.change(life_, [=](Names& names) {
        if (const auto file = names.find(from); file != names.end()) {
          names[to] = file->second;
          names.erase(from);
        }
      });
    }
    Status remove(const std::string& name) override {
      const std::lock_guard lock(disk_.mutex_);
      return disk_.change(life_, [=](Names& names) { names.erase(name); });
    }
    Status sync() override {
      const std::lock_guard lock(disk_.mutex_);
      if (disk_.fate(life_) != Fate::kDone) return error();
      disk_.durable_names_ = disk_.names_;
      disk_.pending_names_.clear();
      return {};
    }

   private:
    FakeDisk& disk_;
    const std::uint64_t life_;
  };

  static Error error() { return {Code::kIo, "fake disk"}; }
  Fate fate(std::uint64_t life) {
    if (life != life_ || dead_) return Fate::kGone;
    if (++operations_ == die_at_) dead_ = true;
    return dead_ || (fail_ > 0 && rng_.uniform() < fail_) ? Fate::kFailed : Fate::kDone;
  }
  /// Changes the names, as one step.
  Status change(std::uint64_t life, std::function<void(Names&)> how) {
    const Fate outcome = fate(life);
    if (outcome == Fate::kGone) return error();
    if (outcome == Fate::kDone || (dead_ && rng_.below(2) == 0)) {
      how(names_);
      pending_names_.push_back(std::move(how));
    }
    return outcome == Fate::kDone ? Status{} : error();
  }

  mutable std::mutex mutex_;  // a journal syncs on a thread of its own
  Rng rng_;
  Names names_;
  Names durable_names_;
  std::vector<std::function<void(Names&)>> pending_names_;
  std::uint64_t life_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t die_at_ = std::numeric_limits<std::uint64_t>::max();
  bool dead_ = false;
  double fail_ = 0;
};

}  // namespace troupe::replay
