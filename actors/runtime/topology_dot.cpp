#include <troupe/actors/runtime/topology_dot.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace troupe::actors {
namespace {

/// A quoted identifier; `\n` between lines of a label is added by the caller, behind the escaping.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out;
}

std::string node(const RoleSpec& role) {
  std::string label = escaped(role.name);
  if (role.count > 1 || role.group) label += fmt::format(" x {}", role.count);
  if (role.group) label += "\\ngroup";
  return fmt::format("\"{}\" [label=\"{}\"{}];\n", escaped(role.name), label, role.group ? ", peripheries=2" : "");
}

std::string edge(const Topology& topology, const ChannelSpec& channel) {
  ChannelKind kind = ChannelKind::kStream;
  if (const RoleSpec* const from = topology.find(channel.from_role)) {
    for (const Port& port : from->outlets) {
      if (port.name == channel.from_port) kind = port.kind;
    }
  }
  const std::string capacity = kind == ChannelKind::kLatest ? "" : fmt::format(" {}", channel.capacity);
  const char* const style = kind == ChannelKind::kStream ? "solid" : kind == ChannelKind::kLatest ? "dashed" : "dotted";
  return fmt::format("  \"{}\" -> \"{}\" [label=\"{}\\n{}{}\", style={}];\n", escaped(channel.from_role),
                     escaped(channel.to_role), escaped(channel.from_port), to_string(kind), capacity, style);
}

}  // namespace

std::string to_dot(const Topology& topology) {
  std::string text =
      "digraph topology {\n"
      "  rankdir=LR; nodesep=0.35; ranksep=0.7; fontname=\"sans-serif\";\n"
      "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef3fb\", color=\"#35557f\", "
      "fontname=\"sans-serif\"];\n"
      "  edge [color=\"#555555\", fontname=\"sans-serif\", fontsize=10];\n";
  std::vector<std::string> parts;
  for (const RoleSpec& role : topology.roles) {
    if (std::find(parts.begin(), parts.end(), role.part) == parts.end()) parts.push_back(role.part);
  }
  for (const std::string& part : parts) {
    const bool framed = !part.empty();
    if (framed)
      text += fmt::format("  subgraph \"cluster_{0}\" {{\n    label=\"{0}\"; style=rounded; color=\"#9a9a9a\";\n",
                          escaped(part));
    for (const RoleSpec& role : topology.roles) {
      if (role.part == part) text += (framed ? "    " : "  ") + node(role);
    }
    if (framed) text += "  }\n";
  }
  for (const ChannelSpec& channel : topology.channels) text += edge(topology, channel);
  return text + "}\n";
}

}  // namespace troupe::actors
