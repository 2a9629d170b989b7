#pragma once
// How deep JSON from outside may nest: it is written, and in part compared, by recursion, so a text of brackets alone
// could end any program that quotes it in a message. Asked before such a text is parsed.
#include <cstddef>
#include <string_view>

namespace troupe {

/// Whether objects and lists in the text lie within each other by more than `levels`. Never false for JSON that does;
/// what is no JSON is for the parser to refuse.
bool json_nests_beyond(std::string_view text, std::size_t levels);

}  // namespace troupe
