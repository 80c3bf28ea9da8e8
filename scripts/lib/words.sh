# Words that the scripts share: where they are, how far along, and a clear end when something is missing.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/lockstep"
steps_done=0
steps_total=0

step() { steps_done=$((steps_done + 1)); printf '\n==> [%d/%d] %s\n' "$steps_done" "$steps_total" "$1"; }
say() { printf '    %s\n' "$1"; }
fail() {
  printf '\n%s: error: %s\n  next: %s\n' "$(basename "$0")" "$1" "$2" >&2
  exit 3
}

# Runs a command and shows its output only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [[ $status -eq 0 ]] || tail -n 25 "$log" >&2
  rm -f "$log"
  return "$status"
}

# Five presets and two precompiled headers of libtorch do not fit into ccache's usual 5 GB.
export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-10G}"

# Configures and builds a preset, with ninja's own progress line where there is a terminal.
build() {
  local preset=$1
  shift
  quietly cmake --preset "$preset" "$@" || fail "cmake could not configure the preset '$preset'" "see the lines above; then run scripts/setup"
  if [[ -t 1 ]]; then cmake --build --preset "$preset"; else
    # Without a terminal: a line for every twentieth of the way, and all of a failing command's output.
    NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" |
      awk '{ if (match($0, /^\[[0-9]+\/[0-9]+\]/)) { split(substr($0, 2, RLENGTH - 2), n, "/"); part = int(20 * n[1] / n[2]);
               if (part != last) { printf "    built %d of %d\n", n[1], n[2]; fflush(); last = part } }
             else print }'
  fi || fail "the preset '$preset' did not build" "see the lines above"
}
