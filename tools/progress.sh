# shellcheck shell=bash
# Sourced by tools/bootstrap.sh and tools/python_env.sh: long steps that say how far they are, in one line that is
# rewritten each second on a terminal that can do it, and in a line every 15 s where there is none.
if [ -t 2 ] && [ -n "${TERM:-}" ] && [ "$TERM" != dumb ]; then progress_live=yes; else progress_live=; fi
progress_every_s=${TROUPE_PROGRESS_EVERY_S:-$([ "$progress_live" ] && echo 1 || echo 15)}

# say_progress TEXT: on a terminal in the place of what was there, and no longer than a line. Width: as it is now.
say_progress() {
  local columns
  [ "$progress_live" ] || { echo "$1" >&2; return; }
  columns=$(stty size <&2 2>/dev/null | cut -d' ' -f2) || true
  ((${columns:-0} > 1)) || columns=80
  printf '\r%s\033[K' "${1:0:columns-1}" >&2
}

# progress_of LOG ELAPSED_S: how far the command is whose output so far is LOG, and how long it may still take, as far
# as the output says so: ninja's lines ([12/383] ...), or those of apt-get.
progress_of() {
  awk -v elapsed="$2" '
    function clock(s) { return sprintf("%d:%02d", s / 60, s % 60) }
    match($0, /^\[[0-9]+\/[0-9]+\]/) { split(substr($0, 2, RLENGTH - 2), step, "/"); done = step[1]; total = step[2] }
    / newly installed,/ { for (i = 2; i <= NF; ++i) if ($i == "newly") { total = 3 * $(i - 1); done = 0 } }
    /^(Get:[0-9]+|Unpacking|Setting up) / && total { ++done }
    END {
      if (done > total) done = total
      if (!total) { print clock(elapsed) " so far"; exit }
      printf "%d of %d steps (%d %%) after %s, ", done, total, 100 * done / total, clock(elapsed)
      if (!done) print "not known how long still"
      else print "about " clock(elapsed * (total - done) / done) " still"
    }' "$1"
}

# with_progress WHAT LOG COMMAND...: runs the command, whose output goes to LOG, and says on standard error what, how far
# and how long still. The exit status is the command's.
with_progress() {
  local what=$1 log=$2 status=0 until_done reporter
  shift 2
  : >"$log"
  # The reporter sleeps in `read` and ends with the pipe: no process outlives this shell, however that ends.
  exec {until_done}> >(
    exec 9>&- # the lock of who builds
    start=$SECONDS
    while read -r -t "$progress_every_s" _; [ $? -gt 128 ]; do
      say_progress "troupe: $what: $(progress_of "$log" $((SECONDS - start)))"
    done
    [ -z "$progress_live" ] || say_progress "" # what is said next takes its place
  )
  reporter=$!
  "$@" {until_done}>&- >>"$log" 2>&1 || status=$?
  exec {until_done}>&-
  wait "$reporter" 2>/dev/null || true # so that its last line does not come after what is said next
  return "$status"
}

# first_error LOG: of a build that failed, the first step that did and what its compiler said, at most 40 lines.
first_error() {
  awk '/^FAILED: / && !found { found = 1; print; command = 1; next }
       command { command = 0; next }  # the command itself, which is long
       found && (/^\[[0-9]+\/[0-9]+\]/ || /^ninja: / || /^FAILED: / || ++lines > 40) { exit }
       found { print }
       { last[NR % 10] = $0 }
       END { if (!found) for (i = NR - 9; i <= NR; ++i) if (i > 0) print last[i % 10] }' "$1"
}
