#!/usr/bin/env bash
# Runs a container engine for tests where none is running: engine.sh start FOLDER | stop FOLDER
# `start` prints variables that make everything use it; ports are published only on loopback. Needs root and Debian packages:
#   apt-get install docker.io containerd runc iptables
set -euo pipefail
say() { echo "surescale: $*" >&2; }
give_up() { say "$*"; exit 1; }

WAIT_S=60

# Prints an engine of another folder that runs in this network namespace.
another() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm" 2> /dev/null)" = dockerd ] || continue
        [ "$process/ns/net" -ef /proc/self/ns/net ] || continue
        [ "${process#/proc/}" != "$(cat "$folder/docker.pid" 2> /dev/null)" ] || continue
        echo "${process#/proc/}"
        return
    done
}

start() {
    [ "$(id -u)" = 0 ] || give_up "an engine needs root"
    command -v dockerd > /dev/null || give_up "no dockerd: apt-get install docker.io containerd runc iptables"
    local other
    other=$(another)
    [ -z "$other" ] || give_up "process $other is an engine already; two would give out the same addresses on one bridge"
    [ ! -e "$folder/docker.pid" ] || give_up "an engine runs in $folder already: engine.sh stop $folder"
    mkdir -p "$folder"
    # dockerd blocks forwarding between other networks of this machine; the old state comes back when it stops.
    iptables --list-rules FORWARD 2> /dev/null | sed -n 's/^-P FORWARD //p' > "$folder/forward" || true
    setsid nohup dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/docker.pid" \
        --ip 127.0.0.1 --host "unix://$folder/docker.sock" > "$folder/log" 2>&1 < /dev/null &
    export DOCKER_HOST=unix://$folder/docker.sock
    for _ in $(seq $((WAIT_S * 10))); do
        docker info > /dev/null 2>&1 && break
        kill -0 $! 2> /dev/null || give_up "the engine ended: $(tail -n 1 "$folder/log")"
        sleep 0.1
    done
    docker info > /dev/null 2>&1 || give_up "the engine does not answer after $WAIT_S s: $(tail -n 1 "$folder/log")"
    echo "export DOCKER_HOST=$DOCKER_HOST TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1"
}

# After a crash the pid may belong to another process.
runs() { [ "$(cat "/proc/$1/comm" 2> /dev/null)" = dockerd ]; }

stop() {
    [ -e "$folder/docker.pid" ] || give_up "no engine runs in $folder"
    local pid
    pid=$(cat "$folder/docker.pid")
    if runs "$pid"; then kill -TERM "$pid"; fi
    for _ in $(seq $((WAIT_S * 10))); do
        runs "$pid" || break
        sleep 0.1
    done
    ! runs "$pid" || give_up "the engine does not end; its process is $pid"
    # Its network, and mounts still held by containers that did not end with it, deepest first.
    awk -v below="$folder/" 'index($2, below) == 1 {print $2}' /proc/self/mounts | sort --reverse | while read -r mounted; do
        umount --lazy "$mounted" || true
    done
    [ ! -s "$folder/forward" ] || iptables --policy FORWARD "$(cat "$folder/forward")" 2> /dev/null || true
    # Only what dockerd created there.
    rm -rf "$folder/data" "$folder/exec" "$folder/docker.sock" "$folder/docker.pid" "$folder/forward" "$folder/log"
    rmdir "$folder" 2> /dev/null || true
}

if [ $# -ne 2 ] || [ "${2#/}" = "$2" ]; then say "usage: engine.sh start|stop FOLDER (an absolute path)"; exit 2; fi
folder=$2
case $1 in
    start | stop) "$1" ;;
    *) say "usage: engine.sh start|stop FOLDER (an absolute path)"; exit 2 ;;
esac
