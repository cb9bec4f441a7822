#!/bin/sh
# Compares what exists with what is declared, writes a report in Markdown, and changes nothing.
#
#   ./drift-report.sh [REPORT]       default: drift.md
#
# The exit code is 0 where all is as declared, 2 where something is not, 1 where that could not be found out.
#
#   TERRAFORM        the CLI: terraform or tofu; default: the one that is installed
#   EGRESS_CONFIG    the backends; default: egress.yaml in this folder
#   EGRESS_PROVIDER  the provider's binary; default: the one that init installed
#   EGRESS_STATES    further states of the same installation, as files: what they hold is nobody's orphan
set -u
cd "$(dirname "$0")" || exit 1
umask 077

report=${1:-drift.md}
export EGRESS_CONFIG="${EGRESS_CONFIG:-$PWD/egress.yaml}"
export TF_IN_AUTOMATION=1 TF_INPUT=0
terraform=${TERRAFORM:-$(command -v terraform || command -v tofu)}
if [ -z "$terraform" ]; then
  echo "neither terraform nor tofu is installed; TERRAFORM names one" >&2
  exit 1
fi

# States hold secrets in clear text: they stay in a folder that nobody else reads, and go.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

worst=0
# result CODE: remembers the worst of all results; not knowing is worse than drift.
result() {
  case $1:$worst in
    0:*) ;;
    2:0 | 2:2) worst=2 ;;
    2:1) ;;
    *) worst=1 ;;
  esac
}

# line CODE NAME FINE FOUND: a line of the table.
line() {
  case $1 in
    0) echo "| $2 | ✅ $3 |" ;;
    2) echo "| $2 | ⚠️ $4 |" ;;
    *) echo "| $2 | ❌ could not be found out |" ;;
  esac
}

# details TITLE FILE: the words behind a line, without colours and cut to what a reader takes in.
details() {
  [ -s "$2" ] || return 0
  printf '\n<details><summary>%s</summary>\n\n````text\n' "$1"
  head -n 400 "$2" | sed "s|$work/||g"
  [ "$(wc -l <"$2")" -le 400 ] || echo "… and more: see the job's log"
  printf '````\n\n</details>\n'
}

if ! "$terraform" init -no-color >"$work/plan.txt" 2>&1; then
  plan=1
else
  # The lock is waited for: a plan beside an apply would report what is half done.
  "$terraform" plan -detailed-exitcode -no-color -lock-timeout=5m >"$work/plan.txt" 2>&1
  plan=$?
fi
result "$plan"

provider=${EGRESS_PROVIDER:-$(find -L .terraform/providers -name 'terraform-provider-egress*' -type f 2>/dev/null | sort | tail -n 1)}
orphans=1
health=1
if [ -n "$provider" ] && "$terraform" show -json >"$work/state.json" 2>"$work/orphans.txt"; then
  set -- --state "$work/state.json"
  for state in ${EGRESS_STATES:-}; do
    set -- "$@" --state "$state"
  done
  "$provider" import-by-tag --detailed-exitcode "$@" >"$work/orphans.txt" 2>&1
  orphans=$?
fi
result "$orphans"
if [ -n "$provider" ]; then
  "$provider" health >"$work/health.txt" 2>&1
  health=$?
fi
result "$health"

{
  echo "## Egress proxies"
  echo
  echo "| | |"
  echo "|---|---|"
  line "$plan" "Plan" "nothing to do" "something to do"
  line "$orphans" "Proxies that no state holds" "none" "found"
  line "$health" "Backends" "healthy" "unhealthy"
  details "Plan" "$work/plan.txt"
  details "Proxies that no state holds" "$work/orphans.txt"
  details "Backends" "$work/health.txt"
} >"$report" || exit 1
cat "$report"
exit "$worst"
