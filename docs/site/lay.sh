#!/usr/bin/env bash
# Lays out the sources of the site as they lie in the repository: the pages of docs/SUMMARY.md, and the files
# and folders that they link to. A page that it does not list is not on the site.
#   docs/site/lay.sh DIRECTORY
set -euo pipefail
mkdir -p "$1"
directory=$(realpath "$1")
cd "$(dirname "$0")/../.."

# linked PAGE..: what pages link to, from the root on. grep prints docs/a.md:](../b.c, which is docs/../b.c.
linked() {
  grep -oHE '(\]\(|^\[[^]]*\]: )[^)# ]+' "$@" | sed -E 's#[^/]*:(\]\(|\[[^]]*\]: )##' |
    grep -vE '://|mailto:' | xargs -d '\n' realpath -ms --relative-to=. | sort -u
}

# tracked PATH..: the files of the repository among these files and folders; without git, all of them.
tracked() {
  git ls-files -z --cached --others --exclude-standard -- "$@" 2>/dev/null || find -L "$@" -type f -print0
}

mapfile -t pages < <(linked docs/SUMMARY.md)
mapfile -t others < <(linked "${pages[@]}" | grep -v '\.md$')
tracked "${pages[@]}" "${others[@]}" | sort -zu |
  xargs -0 cp --parents --target-directory "$directory"
