#!/usr/bin/env bash
# Runs the extension in Node (tests/node_smoke.js, and README.md's block): with better-sqlite3, which npm
# fetches by name into $BUILD/node and builds from source, and with node:sqlite where Node has it. Without
# node, npm, headers or a registry in reach there is nothing to run: that is said, and the exit code is 0.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${BUILD:-build}/node")

skip() {
  echo "test-node: skipped, $1"
  exit 0
}

# Where the headers of this very node are: beside it, or where Debian puts them.
headers() {
  local folder major
  major=$(node -p 'process.versions.node.split(".")[0]')
  for folder in "$(dirname "$(dirname "$(command -v node)")")" /usr; do
    if grep -qs "^#define NODE_MAJOR_VERSION $major\$" "$folder/include/node/node_version.h"; then
      echo "$folder"
      return
    fi
  done
  return 1
}

# Into a folder that becomes ours only when all of it worked.
install() {
  [ -e "$folder" ] && return
  rm -rf "$folder.made"
  mkdir -p "$folder.made"
  (cd "$folder.made" && timeout 600 npm install --no-audit --no-fund --loglevel=error \
    better-sqlite3@12 --build-from-source --nodedir="$1" >&2) || return
  mv "$folder.made" "$folder"
}

bash tests/deps.sh node || skip "node, npm, their headers or a C++ compiler are not here"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' || skip "this node is older than 20"
nodedir=$(headers) || skip "no headers of this node"
install "$nodedir" || skip "npm cannot fetch and build better-sqlite3"
export NODE_PATH=$folder/node_modules
node tests/node_smoke.js better
node tests/node_smoke.js builtin
/usr/bin/python3 tests/readme_check.py
