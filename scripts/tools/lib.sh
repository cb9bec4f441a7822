# Sourced by the scripts beside it: where built tools are cached, and how one is built once.
# EGRESS_TOOLS_DIR moves the cache; an entry is keyed by the tool's version and by the script that makes it.
set -euo pipefail

tools_dir=${EGRESS_TOOLS_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/terraform-provider-egress}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# cache_key SCRIPT: a short hash of the script, so that a changed recipe builds anew.
cache_key() { sha256sum "$1" | cut -c1-12; }

# once DIR FUNCTION [ARG...]: runs FUNCTION in a fresh folder that becomes DIR when it succeeds.
# Two runs at once wait for each other; a half-made folder is never seen under its final name.
once() {
  local dir=$1 work; shift
  [ -e "$dir" ] && return 0
  mkdir -p "$(dirname "$dir")"
  exec 9>"$dir.lock"
  flock 9
  if [ ! -e "$dir" ]; then
    work=$(mktemp -d "$dir.XXXXXX")
    if (cd "$work" && "$@") 1>&2 9>&-; then
      mv "$work" "$dir"
    else
      rm -rf "$work"
      echo "error: could not make $dir" >&2
      return 1
    fi
  fi
  exec 9>&-
}
