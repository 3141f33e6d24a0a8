#!/usr/bin/env bash
# Makes the site of the documents with mdBook, with a search, and checks its links.
#   docs/site/build.sh DIRECTORY      prints where it begins
# Without an mdbook on the machine one is compiled into target/tools, once, as cheaply as can be.
set -euo pipefail
mkdir -p "$1"
directory=$(realpath "$1")
cd "$(dirname "$0")/../.."

version=0.5.4
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
pages=$PWD/target/book-pages
PATH=$tools/bin:$PATH

if ! command -v mdbook >/dev/null; then
  echo "docs: compiling mdbook $version" >&2
  CARGO_TARGET_DIR=$tools/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
    cargo install --quiet --locked --debug --no-default-features --features search \
      --root "$tools" --version "$version" mdbook
  rm -rf "$tools/build"
fi

rm -rf "$pages"
docs/site/lay.sh "$pages"
# The table of contents is written for its place in docs/.
sed -E 's#\]\(#](docs/#; s#docs/\.\./##' docs/SUMMARY.md >"$pages/SUMMARY.md"

mdbook build --dest-dir "$directory" docs/site
python3 docs/site/check.py "$directory"
echo "$directory/index.html"
