#pragma once
// A comparison of runs as pictures and one page: curves of each task over env steps and over wall time, the table, and
// what it was made of. The page needs no other file, no script and no network.
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/run/comparison.hpp>

namespace troupe::apps {

/// The curves of one task, or of all tasks together, as an SVG document.
struct NamedPicture {
  std::string name;  ///< of a file, without .svg: a safe_name()
  std::string svg;
};
/// That of all tasks together first, if there are several, then one a task.
std::vector<NamedPicture> comparison_curves(const Comparison& comparison);

struct PageText {
  std::string title;
  std::vector<std::string> about = {};  ///< sentences that stand first
};
std::string comparison_page(const Comparison& comparison, const PageText& text,
                            const std::vector<NamedPicture>& curves);

/// Writes table.csv, table.md, `page` and curves/NAME.svg into a folder, which is made when it is not there; files of
/// these names are replaced. Errors: kIo.
Status write_comparison(const Comparison& comparison, const PageText& text, const std::filesystem::path& folder,
                        const std::string& page);

}  // namespace troupe::apps
