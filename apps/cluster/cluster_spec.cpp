#include <troupe/apps/cluster/cluster_spec.hpp>

#include <algorithm>
#include <cctype>

namespace troupe::apps {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

const NodeSpec* ClusterSpec::find(std::string_view node) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodeSpec& n) { return n.name == node; });
  return found == nodes.end() ? nullptr : &*found;
}

bool is_host(std::string_view text) {
  const bool ip_v6 = std::count(text.begin(), text.end(), ':') >= 2;
  return !text.empty() && text.size() <= 253 && (is_alnum(text[0]) || text[0] == ':') &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_alnum(c) || c == '-' || c == '.' || c == '_' || (ip_v6 && (c == ':' || c == '%'));
         });
}

}  // namespace troupe::apps
