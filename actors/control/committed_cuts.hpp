#pragma once
// Which cuts of a run over nodes count. Each node writes its part, DIRECTORY/NODE/step-CUT; once all have, the chief
// commits the cut: it writes DIRECTORY/cut.json, which has a checksum of its own and names every part by the SHA-256 of
// the part's manifest, which names every file by its own. So one small file says what the whole cut is, byte for byte.
// The cut before stays as DIRECTORY/cut-NUMBER.json. A cut whose file or one of whose parts is damaged or missing is
// not used at all.
//
// Nothing of a committed cut is removed before `keep` newer ones are committed: nodes write their parts without
// removing any, and the chief tells them which cuts to keep. Parts of a cut that failed go with the next one.
//
// Used by the chief's process, for every other node by run/node, and by the commands that read a run.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::actors {

struct CutPart {
  std::string node;
  std::string id;                      ///< messages::checkpoint_id()
  std::vector<std::string> instances;  ///< whose state it holds
  /// Whether the chief could read it when it committed the cut; else it is on a disk of its node's host.
  bool here = true;
  friend bool operator==(const CutPart&, const CutPart&) = default;
};

struct CommittedCut {
  std::uint64_t number = 0;  ///< 0: there is none
  std::vector<CutPart> parts;
  bool has(std::string_view instance) const;
  friend bool operator==(const CommittedCut&, const CommittedCut&) = default;
};

/// What else a node of several does with its parts of cuts; each may block for the disk, and may be empty.
struct CutParts {
  /// CutPart::id of the part that was just written.
  std::function<Result<std::string>(std::uint64_t number)> id;
  /// Removes the parts of all other cuts.
  std::function<void(const std::vector<std::uint64_t>& numbers)> keep;
  /// Verifies every byte of one.
  std::function<Status(std::uint64_t number, const std::string& id)> check;
};

/// "step-000000012": what its parts, and messages about it, are called.
std::string cut_name(std::uint64_t number);

/// Makes it the newest one and lets go of the files of all but the `keep` newest. Sets `here` of each part by itself.
/// Errors: kIo; after that of the very last sync it may count all the same.
Status commit_cut(const std::filesystem::path& directory, CommittedCut cut, int keep);

/// The newest cut whose file is good; its parts are not looked at. Errors: kNotFound (no cut was committed), kCorrupt.
Result<CommittedCut> newest_cut(const std::filesystem::path& directory);
/// The cut of this number. Errors: as newest_cut().
Result<CommittedCut> find_cut(const std::filesystem::path& directory, std::uint64_t number);

/// What may be gone on from.
struct WholeCuts {
  /// Newest first, and at least one. No part that can be read here is damaged; the last one has all of them here,
  /// unless every cut has parts elsewhere.
  std::vector<CommittedCut> cuts;
  /// Newer than the first of `cuts`, or between them; newest first.
  std::vector<messages::RejectedCheckpoint> rejected;
};
/// Reads every byte of the newest cut, and of older ones only where they are needed. Errors: kNotFound (no cut was
/// committed), kCorrupt (none is whole: what is wrong with each), kIo.
Result<WholeCuts> whole_cuts(const std::filesystem::path& directory);

/// Cuts newer than `number` count no more: their files get other names, so that somebody may look at them. Errors: kIo.
Status set_aside_newer(const std::filesystem::path& directory, std::uint64_t number);

/// Numbers of the cuts whose parts must stay: the committed ones, and those that were set aside.
std::vector<std::uint64_t> kept_cuts(const std::filesystem::path& directory);

/// Removes a node's parts of all other cuts. Blocks for the disk.
void keep_parts(const std::filesystem::path& directory, const std::string& node,
                const std::vector<std::uint64_t>& numbers);

/// A part, with every byte verified. `id`: empty where it is not known. Errors: as open_checkpoint(); kCorrupt when it
/// is another one than `id` says.
Result<messages::OpenCheckpoint> open_part(const std::filesystem::path& directory, const std::string& node,
                                           std::uint64_t number, const std::string& id);

/// Says whether open_part() would succeed. It reads the part piece by piece, so any size will do.
Status check_part(const std::filesystem::path& directory, const std::string& node, std::uint64_t number,
                  const std::string& id);

}  // namespace troupe::actors
