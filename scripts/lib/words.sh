# Words that the scripts share: where they are, how far along, what each stage took, and a clear end
# when something is missing.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/lockstep"
steps_done=0
steps_total=0
stage_names=()
stage_seconds=()
stage_began=

step() {
  end_stage
  steps_done=$((steps_done + 1))
  printf '\n==> [%d/%d] %s\n' "$steps_done" "$steps_total" "$1"
  stage_names+=("$1")
  stage_began=$SECONDS
}
end_stage() {
  [[ -z $stage_began ]] || stage_seconds+=($((SECONDS - stage_began)))
  stage_began=
}
minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
# What each stage took, for the end of a script.
table_of_stages() {
  end_stage
  printf '\nwhat each stage took (min:s, %d cores)\n' "$(nproc)"
  local i
  for i in "${!stage_seconds[@]}"; do
    printf '  %6s  %s\n' "$(minutes "${stage_seconds[$i]}")" "${stage_names[$i]}"
  done
  printf '  %6s  in all\n' "$(minutes $SECONDS)"
}

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

# Four presets and a precompiled header of libtorch do not fit into ccache's usual 5 GB.
export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-10G}"

configure() {
  local preset=$1
  shift
  quietly cmake --preset "$preset" "$@" ||
    fail "cmake could not configure the preset '$preset'" "see the lines above; then scripts/setup"
}

# Builds a preset (and of it the targets named), with ninja's own progress line where there is a
# terminal, else a line for every tenth of the way and all of a failing command's output.
# BUILD_GENTLY=1: behind what else runs, for tests that run beside it.
build() {
  local preset=$1 targets=() gently=()
  shift
  [[ -z ${BUILD_GENTLY:-} ]] || gently=(nice -n 15)
  [[ $# -eq 0 ]] || targets=(--target "$@")
  if [[ -t 1 ]]; then "${gently[@]}" cmake --build --preset "$preset" "${targets[@]}"; else
    NINJA_STATUS='[%f/%t] ' "${gently[@]}" cmake --build --preset "$preset" "${targets[@]}" |
      awk '{ if (match($0, /^\[[0-9]+\/[0-9]+\]/)) {
               split(substr($0, 2, RLENGTH - 2), n, "/"); part = int(10 * n[1] / n[2]);
               if (part != last) { printf "    built %d of %d\n", n[1], n[2]; fflush(); last = part } }
             else print }'
  fi || fail "the preset '$preset' did not build" "see the lines above"
}
