#!/usr/bin/env bash
# Five hosts on this machine (network namespaces with addresses of their own) train cartpole-swingup together: a chief,
# replay, a learner and two nodes of env actors. First nobody disturbs them; then, in a second run, each of the five dies
# once by kill -9. Both are given the same number of environment steps and end with the same return.
#
#   sudo deploy/demo.sh [RUN_DIR]     about 5 minutes on a quiet machine; default RUN_DIR: runs/demo-TIME
#   sudo deploy/demo.sh --short       only the second run and few steps: no return to speak of, half a minute, no RUN_DIR
#
# TROUPE: the program, default build/release/bin/troupe (`./troupe version` builds it). Whatever happens, no process and
# no namespace is left. Exit status: 0 when all went well, 1 when something did not, 77 when this machine cannot do it.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # where ip is

root=$(dirname "$(dirname "$(readlink -f "$0")")")
troupe=${TROUPE:-$root/build/release/bin/troupe}
config=$root/apps/configs/cartpole_swingup.toml
nodes=(chief replay learner actors-0 actors-1)
env_steps=150000 goal=800 limit_s=900
short=
run_dir=${1:-$root/runs/demo-$(date +%Y%m%d-%H%M%S)}
if [ "${1:-}" = --short ]; then short=yes env_steps=25000 limit_s=120; fi

# Hosts on one machine are network namespaces: the tests of faults know whether they can be made.
needs=$(cd "$root/tests/faults" && /usr/bin/python3 -BSm harness.requirements root hosts) ||
  { [ $? = 77 ] && echo "SKIPPED demo.sh: $needs (docs/faults.md says how to run it)" >&2 && exit 77; exit 1; }
[ -x "$troupe" ] || { echo "demo.sh: no program $troupe; ./troupe version builds it" >&2; exit 1; }
if [ -n "$short" ]; then run_dir=$(mktemp -d -t troupe-demo.XXXX)
elif [ -e "$run_dir" ]; then echo "demo.sh: $run_dir is there already" >&2; exit 1; fi

# --- hosts ---
prefix="troupe-demo"
host() { echo "$prefix.$$.$1"; }
address() { case $1 in chief) echo 10.78.0.1 ;; replay) echo 10.78.0.2 ;; learner) echo 10.78.0.3 ;;
  actors-0) echo 10.78.0.4 ;; actors-1) echo 10.78.0.5 ;; esac; }

remove_namespace() {
  ip netns pids "$1" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
  ip netns delete "$1" 2>/dev/null || true
}

remove_hosts() {
  local space
  disown -a
  for space in $(ip netns list | awk '{print $1}' | grep "^$prefix\.$$\." || true); do remove_namespace "$space"; done
}

# What a demo left behind that was itself killed by kill -9.
remove_leftovers() {
  local space pid
  for space in $(ip netns list | awk '{print $1}' | grep "^$prefix\." || true); do
    pid=${space#"$prefix".}
    [ -d "/proc/${pid%%.*}" ] || remove_namespace "$space"
  done
}

make_hosts() {
  local node space switch
  switch=$(host switch)
  ip netns add "$switch"
  ip -n "$switch" link add bridge type bridge
  ip -n "$switch" link set bridge up
  for node in "${nodes[@]}"; do
    space=$(host "$node")
    ip netns add "$space"
    ip -n "$space" link set lo up
    ip -n "$switch" link add "$node" type veth peer name eth0 netns "$space"
    ip -n "$switch" link set "$node" master bridge up
    ip -n "$space" address add "$(address "$node")/24" dev eth0
    ip -n "$space" link set eth0 up
  done
}

# --- runs ---
declare -A keeper # of each node: the process that starts it again when it dies

write_cluster() {
  local node roles
  echo 'run = "demo"'
  for node in "${nodes[@]}"; do
    case $node in
      chief) roles='metrics = [0], parameters = [0], evaluator = [0]' ;;
      actors-*) roles="actor = [${node#actors-}]" ;;
      *) roles="$node = [0]" ;;
    esac
    printf '\n[[nodes]]\nname = "%s"\nhost = "%s"\nport = 7600\nroles = { %s }\n' "$node" "$(address "$node")" "$roles"
  done
}

start_run() { # RUN
  local node
  mkdir -p "$1/output"
  write_cluster >"$1/nodes.toml"
  began=$SECONDS
  for node in "${nodes[@]}"; do
    setpriv --pdeathsig KILL ip netns exec "$(host "$node")" "$troupe" node "$config" --cluster "$1/nodes.toml" \
      --name "$node" --keep-up --run-dir "$1" --set actors.count=2 --set max_env_steps="$env_steps" \
      --set max_minutes=0 --set checkpoint.every_s=2 >"$1/output/$node.txt" 2>&1 </dev/null &
    keeper[$node]=$!
    [ "$node" = chief ] || disown # the shell need not tell how they end
  done
}

say() { printf '[%3d s] %s\n' $((SECONDS - began)) "$*"; }
fail() { echo "demo.sh: $2; the nodes' output is in $1/output" >&2; exit 1; }

# The newest value of a column of a file of the run, rounded; 0 while there is none.
newest() { # RUN COLUMN [FILE]
  awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == name) column = i }
    NR > 1 && column && $column != "" { last = $column } END { printf "%.0f\n", last }' "$1/${3:-metrics.csv}" 2>/dev/null ||
    echo 0
}
final_return() { grep -o '"final_return": {[^}]*' "$1/summary.json" | grep -o '"mean": [-0-9.e]*' | cut -d' ' -f2; }

# Until the run has made so many environment steps, or has ended.
wait_for_steps() { # RUN STEPS
  while (($(newest "$1" env_steps) < $2)) && kill -0 "${keeper[chief]}" 2>/dev/null; do
    ((SECONDS - began < limit_s)) || fail "$1" "no $2 environment steps within $limit_s s"
    sleep 0.2
  done
}

wait_for_end() { # RUN
  while kill -0 "${keeper[chief]}" 2>/dev/null; do
    ((SECONDS - began < limit_s)) || fail "$1" "the run did not end within $limit_s s"
    sleep 0.2
  done
  wait "${keeper[chief]}" || fail "$1" "the chief ended with exit status $?"
  local node
  for node in "${nodes[@]}"; do
    timeout 20 tail --pid="${keeper[$node]}" -f /dev/null || fail "$1" "$node outlived the run by 20 s"
  done
}

# How often the chief has said that a node joined; of the chief itself, how often it came to listen.
joined() { # RUN NODE
  local said="node $2 has joined"
  [ "$2" != chief ] || said="the chief listens on"
  grep -c "$said" "$1/output/chief.txt" || true
}

kill_node() { # RUN NODE
  local pid before end=$((SECONDS + 30)) begin_ms
  pid=$(cat "/proc/${keeper[$2]}/task/"*/children 2>/dev/null || true)
  pid=${pid%% *}
  [ -n "$pid" ] || fail "$1" "the run ended before $2 was killed"
  before=$(joined "$1" "$2")
  say "$(newest "$1" env_steps) environment steps, return $(newest "$1" return evaluations.csv): kill -9 of $2 (pid $pid)"
  begin_ms=$(date +%s%3N)
  kill -KILL "$pid"
  while (($(joined "$1" "$2") == before)); do
    ((SECONDS < end)) || fail "$1" "$2 did not come back within 30 s"
    sleep 0.02
  done
  say "$2 is back after $(($(date +%s%3N) - begin_ms)) ms"
}

# --- the demo ---
trap remove_hosts EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
remove_leftovers
make_hosts
mkdir -p "$run_dir"
run_dir=$(readlink -f "$run_dir")
echo "Five hosts: $(for node in "${nodes[@]}"; do printf '%s %s  ' "$node" "$(address "$node")"; done)"

calm=$run_dir/undisturbed
if [ -z "$short" ]; then
  echo "A run that nobody disturbs:"
  start_run "$calm"
  for part in 1 2 3 4; do
    wait_for_steps "$calm" $((env_steps * part / 5))
    say "$(newest "$calm" env_steps) environment steps, return $(newest "$calm" return evaluations.csv)"
  done
  wait_for_end "$calm"
  say "the end: return $(final_return "$calm")"
fi

killed=$run_dir/disturbed
echo "A run in which each host's node dies once:"
start_run "$killed"
part=0
for node in actors-0 replay learner chief actors-1; do
  wait_for_steps "$killed" $((env_steps * ++part / 10))
  kill_node "$killed" "$node"
done
wait_for_end "$killed"
say "the end: return $(final_return "$killed")"

if [ -n "$short" ]; then rm -rf "$run_dir"; exit 0; fi
echo "The nodes' output, metrics and checkpoints are in $run_dir."
awk -v calm="$(final_return "$calm")" -v killed="$(final_return "$killed")" -v goal="$goal" 'BEGIN {
  printf "Return of the last policy, of 1000: %.1f undisturbed, %.1f disturbed; %d is the goal.\n", calm, killed, goal
  exit !(calm >= goal && killed >= goal) }' || fail "$killed" "not both reached the goal"
