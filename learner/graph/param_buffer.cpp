#include <troupe/learner/graph/param_buffer.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/check.hpp>

namespace troupe::learner {

namespace {

constexpr std::int64_t kPadElements = 16;  // 64 bytes of float32

std::int64_t padded(std::int64_t elements) { return (elements + kPadElements - 1) / kPadElements * kPadElements; }

}  // namespace

void ParamLayout::add(std::string name, const Shape& shape) {
  entries.push_back({std::move(name), shape, elements});
  elements += padded(shape.elements());
}

// FNV-1a, 64 bit: stable over runs and platforms, and collisions are no attack here since frames are authenticated.
std::uint64_t ParamLayout::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  };
  mix(group);
  for (const ParamEntry& entry : entries)
    mix(fmt::format("|{} {} @{}", entry.name, entry.shape.to_string(), entry.offset));
  return hash;
}

bool is_published_with(std::string_view group, std::string_view name) {
  return name.starts_with(fmt::format("state/{}/", group));
}

ParamLayout published_layout(std::span<const ParamLayout* const> groups, const ParamLayout& state) {
  ParamLayout layout = *groups.front();
  for (const ParamLayout* const group : groups.subspan(1)) {
    for (const ParamEntry& entry : group->entries) layout.add(entry.name, entry.shape);
  }
  for (const ParamEntry& entry : state.entries) {
    const auto is_its = [&](const ParamLayout* group) { return is_published_with(group->group, entry.name); };
    if (std::ranges::any_of(groups, is_its)) layout.add(entry.name, entry.shape);
  }
  return layout;
}

const ParamEntry* ParamLayout::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &ParamEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::vector<UpdateStretch> ParamLayout::decay_stretches() const {
  std::vector<UpdateStretch> stretches;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!stretches.empty() && stretches.back().decays == entries[i].decays) {
      stretches.back().end = end(i);
    } else {
      stretches.push_back({entries[i].offset, end(i), entries[i].decays});
    }
  }
  return stretches;
}

ParamBuffer::ParamBuffer(ParamLayout layout, std::vector<std::string> slots)
    : layout_(std::move(layout)),
      fingerprint_(layout_.fingerprint()),
      slots_(std::move(slots)),
      data_(make_aligned<float>(static_cast<std::size_t>(layout_.elements) * (slots_.size() + 1))) {}

std::span<float> ParamBuffer::section(std::size_t index) {
  TROUPE_CHECK(index <= slots_.size(), "slot {} of {}", index - 1, slots_.size());
  const auto size = static_cast<std::size_t>(layout_.elements);
  return {data_.get() + size * index, size};
}

std::span<float> ParamBuffer::tensor(const ParamEntry& entry) {
  return values().subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.shape.elements()));
}

Status ParamBuffer::load(std::span<const float> values, std::uint64_t fingerprint) {
  if (fingerprint != fingerprint_ || values.size() != this->values().size()) {
    return Error{
        Code::kShapeMismatch,
        fmt::format("parameters of group \"{}\": got {} values with fingerprint {:016x}, expected {} with {:016x}",
                    layout_.group, values.size(), fingerprint, this->values().size(), fingerprint_)};
  }
  std::ranges::copy(values, this->values().begin());
  return {};
}

}  // namespace troupe::learner
