#pragma once
// A comparison of runs as a table: table.csv for programs, table.md for people and pages. The page of
// run/comparison_page.hpp shows the same cells.
#include <string>
#include <vector>

#include <troupe/run/comparison.hpp>

namespace troupe::apps {

/// A line for each group, those of all tasks together last. Numbers read back to the same bits; what cannot be said is
/// an empty cell. docs/sweeps.md explains the columns.
std::string comparison_csv(const Comparison& comparison);

/// The same in fewer columns with rounded numbers, for a person.
struct ShownTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
ShownTable shown_table(const Comparison& comparison);

/// How the table's numbers were made, and of what: sentences to stand below it.
std::vector<std::string> notes_of(const Comparison& comparison);

/// Table and notes as Markdown.
std::string comparison_markdown(const Comparison& comparison);

/// The table as aligned lines for a terminal.
std::string comparison_text(const Comparison& comparison);

}  // namespace troupe::apps
