#pragma once
// Puts versions together from the pieces that the shards of a parameter store send, for everyone who acts: env actor,
// evaluator. With one shard a version comes whole and passes through.
//
// A version is complete only when all its pieces are of that version, so nobody ever acts with a mix. The difficulty is
// to have two shards send the same version to a reader that cannot keep up: each sends what is best when the reader has
// taken the piece before, these moments differ, and a learner that publishes in between could make them miss each other
// for ever (shard 0 sends 1, 3, 5, ..., shard 1 sends 2, 4, 6, ...). Asking a shard for a version that it has passed
// over would need a history there, and pins on it. Instead both sides prefer the same versions, without a word between
// them: a publication's rank is the number of trailing zero bits of its number, and a reader that is behind is sent the
// highest rank of what it has missed, then the newest.
//   Why that suffices: let W publications at most pass between two sends of a shard to this reader, and 2^r > 2 W. Of
// two neighbours in rank >= r each is more than 2 W from the other, so a publication of rank r is the highest of
// whatever window a shard chooses from: every shard sends it, at most W after it was published, and it has arrived
// before the next send, 2 W after it was published. The reader keeps a piece until a higher or equal rank comes, which
// is later than that. So a version is complete at least every 2^r <= 4 W publications, whatever the interleaving; and
// when the learner pauses, all shards send the newest. All shards know the same publications, because the learner
// publishes only when each has taken the one before (it does not wait: it publishes a later version instead).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {

/// Of the pieces of one shard that were added, the one of highest rank (of equals the newest) and the newest: at most
/// two. A store has one of these for each reader, a reader one for each store shard.
class KeptPieces {
 public:
  /// Versions ascend; an older one than the newest is dropped.
  void add(messages::ParametersView piece);

  bool empty() const { return pieces_.empty(); }
  /// Ascending.
  std::span<const messages::ParametersView> pieces() const { return pieces_; }
  /// The piece of the same version and publication.
  const messages::ParametersView* find(const messages::ParametersInfo& info) const;
  /// Removes and returns the older one. Must not be empty.
  messages::ParametersView take();
  /// Drops those for which `drop(info)` holds.
  template <typename Predicate>
  void drop_if(Predicate drop) {
    std::erase_if(pieces_, [&](const messages::ParametersView& piece) { return drop(piece.info()); });
  }

 private:
  std::vector<messages::ParametersView> pieces_;
};

struct AssembledParameters {
  std::int64_t version = 0;
  std::uint64_t layout_hash = 0;
  std::span<const float> values;  ///< the whole flat buffer
};

/// Bounded: at most two pieces of each shard, the assembled buffer, and what waits in the inlet (one frame a shard).
class ParametersAssembler {
 public:
  /// Takes all that waits in `inlet` (latest, Parameters). Returns the newest complete version if it is newer than all
  /// that were returned before, valid until the next call. Errors, after which the next call goes on behind the frame
  /// that was taken last: those of read_parameters; kInvalidArgument when it is not float32 or when pieces do not
  /// belong together (count, size, layout, or ranges that overlap).
  Result<std::optional<AssembledParameters>> take(Inlet& inlet);
  /// The same of the inlet `port`, refusing what is an error.
  std::optional<AssembledParameters> take(RoleContext& context, std::string_view port);

 private:
  /// One frame's part in take(): what is complete with it, if anything.
  Result<std::optional<AssembledParameters>> take_one(messages::Frame frame);
  Status add(messages::ParametersView piece);
  /// The newest publication of which every shard's piece is here. A version alone does not say which pieces belong
  /// together: a learner that was restarted publishes it anew, perhaps partitioned in another way.
  std::optional<messages::ParametersInfo> complete() const;
  Result<AssembledParameters> assemble(const messages::ParametersInfo& info);
  void drop_hopeless();

  std::vector<KeptPieces> shards_;
  std::int64_t version_ = -1;  ///< newest that was returned
  std::optional<messages::ParametersView> whole_;
  std::vector<float> values_;
};

}  // namespace troupe::actors
