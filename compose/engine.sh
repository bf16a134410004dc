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

# Clears away what killed engines left. A network namespace keeps its address on the bridge even with nobody in it, and answers
# for the new container that gets the same address.
clear_leftovers() {
    local left
    awk '$3 == "nsfs" && sub("/exec/netns/[0-9a-f]+$", "", $2) {print $2}' /proc/self/mounts | sort --unique | while read -r left; do
        # Only engines of this script, which keeps the forwarding state.
        [ -e "$left/forward" ] && ! runs "$(cat "$left/docker.pid" 2> /dev/null)" || continue
        say "clearing away what a killed engine left in $left"
        clear_away "$left"
    done
}

start() {
    [ "$(id -u)" = 0 ] || give_up "an engine needs root"
    command -v dockerd > /dev/null || give_up "no dockerd: apt-get install docker.io containerd runc iptables"
    local other
    other=$(another)
    [ -z "$other" ] || give_up "process $other is an engine already; two would give out the same addresses on one bridge"
    [ ! -e "$folder/docker.pid" ] || give_up "an engine runs in $folder already: engine.sh stop $folder"
    clear_leftovers
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
runs() { [ -n "$1" ] && [ "$(cat "/proc/$1/comm" 2> /dev/null)" = dockerd ]; }

# clear_away FOLDER: removes what an engine that has ended left there, with containers that did not end with it.
clear_away() {
    local mounted process
    # Deepest first.
    awk -v below="$1/" 'index($2, below) == 1 {print $2}' /proc/self/mounts | sort --reverse | while read -r mounted; do
        # A container on the host's network holds this namespace itself.
        if [[ $mounted = "$1"/exec/netns/* ]] && ! [ "$mounted" -ef /proc/self/ns/net ]; then
            for process in /proc/[0-9]*; do
                [ ! "$process/ns/net" -ef "$mounted" ] || kill -KILL "${process#/proc/}" 2> /dev/null || true
            done
        fi
        umount --lazy "$mounted" || true
    done
    [ ! -s "$1/forward" ] || iptables --policy FORWARD "$(cat "$1/forward")" 2> /dev/null || true
    # Only what dockerd created there.
    rm -rf "$1/data" "$1/exec" "$1/docker.sock" "$1/docker.pid" "$1/forward" "$1/log"
    rmdir "$1" 2> /dev/null || true
}

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
    clear_away "$folder"
}

if [ $# -ne 2 ] || [ "${2#/}" = "$2" ]; then say "usage: engine.sh start|stop FOLDER (an absolute path)"; exit 2; fi
folder=$2
case $1 in
    start | stop) "$1" ;;
    *) say "usage: engine.sh start|stop FOLDER (an absolute path)"; exit 2 ;;
esac
