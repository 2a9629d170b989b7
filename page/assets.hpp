#pragma once
// The files of the page (page/assets/) and the chart library, as they were when the program was built.
#include <string_view>

namespace troupe::page {

struct Asset {
  std::string_view path;  ///< "/page.js"; of the page itself "/"
  std::string_view type;
  std::string_view text;
};

/// Null: there is none.
const Asset* find_asset(std::string_view path);

}  // namespace troupe::page
