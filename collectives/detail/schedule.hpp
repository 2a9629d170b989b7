#pragma once
// The algorithms between processes, as data: what one rank does in a collective, step by step. Pure functions of rank,
// size and length, so that a test can play all ranks against each other and count steps and bytes. P is the number of
// ranks, N the bytes of what all_reduce reduces, of a row in the others, S the bytes of a segment.
//
// Every message is one segment, so that one is on its way while another is reduced. Segments of the same stage go one
// after the other and stages overlap, kLag segments behind each other; no rank gets further ahead of another than that,
// because its next stage waits for the other's last. That bounds what lies unread at any rank to 4 kLag segments from
// each peer, and in the ring, where a neighbour learns of a slow rank only through all others, 2 P^2.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::collectives::detail {

/// Who one rank exchanges with at one level of recursive doubling. Before it, a rank has what ranks
/// [first, first + count) gave; after it, also what `receive_from` had.
struct DoublingLevel {
  int first = 0;
  int count = 0;
  std::vector<int> send_to;  ///< each gets all that this rank has
  int receive_from = -1;     ///< -1: nobody; this level adds nothing
  int receive_first = 0;     ///< the ranks whose gifts come from there
  int receive_count = 0;
};

/// Recursive doubling: everybody gets everybody's small gift (what it calls, its weight, the values of a small tensor).
/// At level k, aligned blocks of 2^k ranks exchange with their neighbour block. ceil(log2 P) steps; (P-1) N bytes to
/// each rank, and as many from each where P is a power of two. Otherwise the ranks of a short last block send to more
/// than one. Everything is gathered and not added up on the way, because the shares of a mean are known only when all
/// weights are; for values this small the steps cost, not the bytes.
std::vector<DoublingLevel> doubling(int rank, int size);

/// One thing to do. A rank does its steps in order, and waits where a message has not come yet.
struct Step {
  enum class Kind : std::uint8_t {
    kSendInput,   ///< the caller's values [input, +count) to peer
    kSendResult,  ///< [result, +count) of the result to peer; with count 0 an empty message: "go on"
    kReceive,     ///< [result, +count) of the result from peer
    kAdd,         ///< a message of peer, reduced with [result, +count) into it
    kReduce,      ///< a message of every contributing peer and the caller's values [input, +count): the tree over ranks
                  ///< goes to [result, +count)
  };
  Kind kind = Kind::kReceive;
  int peer = 0;
  std::size_t input = 0;
  std::size_t result = 0;
  std::size_t count = 0;  ///< elements

  friend bool operator==(const Step&, const Step&) = default;
};

/// Elements of a message at most: 256 KiB of float32. Between 64 and 512 KiB nothing differs by more than the noise
/// from 1 MiB up; a lag of 16 is up to a tenth faster than one of 4 (measured: 2 and 4 hosts, TLS), and more on its way
/// helps where hosts are far apart.
constexpr std::size_t kSegment = std::size_t{64} << 10;
constexpr std::size_t kLag = 16;
constexpr std::size_t kRingLag = 1;  // its many stages keep enough under way

/// A rank's place among those that take part: peers are named by their number here.
struct Place {
  int rank = 0;
  int size = 1;
  std::size_t segment = kSegment;
  /// By rank, for reductions: whether it contributes. Those of weight 0 in a mean do not; they still get the result.
  std::vector<bool> contributes = {};
};

/// Direct exchange: a slice of every block belongs to each rank; all send it their part, it reduces them in the fixed
/// tree and sends everybody the result. 2 steps and 2 (P-1)/P N bytes from each rank, the least possible; one pass over
/// P inputs, and the bits are those of the tree. In place.
std::vector<Step> direct_all_reduce(const Place& place, std::size_t count);

/// Ring: slices go round, each rank adding its part, then round again as results. 2 (P-1) steps and 2 (P-1)/P N bytes
/// from each rank, all to its one neighbour. Sums go in the order of the ring from each slice's owner on: the same
/// bits on every rank and in every run, but not the tree's. In place; all ranks must contribute.
std::vector<Step> ring_all_reduce(const Place& place, std::size_t count);

/// Every row straight to its rank, which reduces in the fixed tree. 1 step, (P-1) N bytes from each rank; empty
/// messages from a rank that does not contribute.
std::vector<Step> direct_reduce_scatter(const Place& place, std::size_t count);

/// Every rank's row straight to every other. 1 step, (P-1) N bytes from each rank. The own row must lie in the result.
std::vector<Step> direct_all_gather(const Place& place, std::size_t count);

/// Binomial tree: in round k, the 2^k ranks that have the values send them on. ceil(log2 P) steps, segments overlap;
/// at most ceil(log2 P) N bytes, from the root, and an empty message back for each segment.
std::vector<Step> tree_broadcast(const Place& place, int root, std::size_t count);

}  // namespace troupe::collectives::detail
