# cmake -D OUTPUT=FILE.cpp -D FILES="PATH=FILE;..." -P EmbedFiles.cmake: a source that holds the files as they are, for
# page/assets.hpp. PATH is what a browser asks for; the type follows from the file's suffix.
set(type.html "text/html; charset=utf-8")
set(type.css "text/css; charset=utf-8")
set(type.js "text/javascript; charset=utf-8")
set(type.svg image/svg+xml)
set(source "// Made by cmake/EmbedFiles.cmake.\n#include <troupe/page/assets.hpp>\n\n#include <array>\n\nnamespace troupe::page {\nnamespace {\n\n")
string(APPEND source "constexpr std::array kAssets = {\n")
foreach(entry IN LISTS FILES)
  string(REGEX MATCH "^([^=]*)=(.*)$" entry "${entry}")
  set(path ${CMAKE_MATCH_1})
  set(file ${CMAKE_MATCH_2})
  get_filename_component(suffix ${file} LAST_EXT)
  # As numbers: a string literal may not be as long as these files, and CMake's lists would break at semicolons.
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(REGEX REPLACE "\n" "\"\n    \"" bytes "${bytes}")
  # The size is given, as a text may hold zeros.
  file(SIZE ${file} size)
  string(APPEND source "    Asset{\"${path}\", \"${type${suffix}}\", {\"${bytes}\", ${size}}},\n")
endforeach()
string(APPEND source "};\n\n}  // namespace\n\nconst Asset* find_asset(std::string_view path) {\n  for (const Asset& asset : kAssets) {\n    if (asset.path == path) return &asset;\n  }\n  return nullptr;\n}\n\n}  // namespace troupe::page\n")
file(WRITE ${OUTPUT} "${source}")
