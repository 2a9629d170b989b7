#pragma once
// What one node needs to begin, from wherever it comes: the launcher hands it over in the node's standard input (it
// holds a key, so it is no argument and no file); a node that was started by something else puts it together by itself.
#include <optional>
#include <string>
#include <string_view>

#include <troupe/apps/cluster/cluster_spec.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/credentials.hpp>

namespace troupe::apps {

struct NodeStart {
  std::string program;  ///< version of the launcher's
  std::string node;     ///< its name
  std::string cluster;  ///< a cluster file's text
  std::string config;   ///< the resolved configuration's text
  transport::Credentials credentials;
  std::string authority_key;  ///< for a chief whose run directory has none yet: the text of security/authority.key
  bool resume = false;        ///< the run goes on from its newest checkpoint
  std::string chief;          ///< where it listens, if the cluster does not say it; empty: it does
  bool announces = false;     ///< of a chief: it says where it listens, for those who cannot know
  bool begun = false;         ///< of a chief: it has led this run before, so the run directory must have its journal
  bool locked = false;        ///< of a chief: the launcher keeps others out of the run directory (RunLock)
  std::string before;         ///< of a chief: where it listened in an earlier start of the run; empty: not known
};

std::string to_text(const NodeStart& start);
/// `program`: version of this one. Errors: kInvalidArgument, also when another version wrote the text.
Result<NodeStart> parse_node_start(std::string_view text, std::string_view program);

/// The line of its output in which a chief announces where it listens, and what such a line says.
std::string announcement(const transport::Address& address);
std::optional<transport::Address> announced(std::string_view line);

/// Who a node of a cluster is: its roles, and "chief" on the first.
transport::Identity identity_of(const ClusterSpec& cluster, const NodeSpec& node);

/// The authority in the folder `security`; a new one of a run named `run` if there is none. For the one process that
/// begins a run. Errors: those of Authority.
Result<transport::Authority> open_authority(const std::string& security, const std::string& run);

/// The same for the others, who share the folder: waits for up to a minute until it is there. Errors: those of
/// Authority; kDeadlineExceeded.
Result<transport::Authority> await_authority(const std::string& security);

/// Puts an authority's file, as it was handed over, into the folder if there is none. Errors: kInvalidArgument
/// (damaged, or there is another), kIo.
Status keep_authority(const std::string& security, const std::string& text);

}  // namespace troupe::apps
