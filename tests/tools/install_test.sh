#!/usr/bin/env bash
# Installs the headers and compiles what a user of replay writes, with no other include folder.
#   install_test.sh BUILD_DIR COMPILER
set -euo pipefail
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" --component headers >/dev/null
for header in core/error.hpp envs/environment.hpp replay/table.hpp; do
  [ -f "$prefix/include/troupe/$header" ] || { echo "not installed: include/troupe/$header"; exit 1; }
done
"$2" -std=c++20 -fsyntax-only -I"$prefix/include" -x c++ - <<'C++'
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/replay/table.hpp>
int main() {}
C++
