#!/usr/bin/env bash
# Builds stand-ins for the pipeline's base images where no image registry is reachable: base, Python, Redis and Prometheus from
# Debian packages, Kafka from its Maven jars. Prints variables that make everything else use them:
#   eval "$(compose/local-images.sh)"
# Needs: root, a running container engine, mmdebstrap (apt-get install mmdebstrap), and `make install` for the jars.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "surescale: $*" >&2; }
give_up() { say "$*"; exit 1; }

SUITE=trixie
BASE=standin/base:$SUITE
PYTHON=standin/python:3.13
REDIS=standin/redis:8
PROMETHEUS=standin/prometheus:2.53
KAFKA=standin/kafka:4.2.1
AUTHORITIES=/usr/local/share/ca-certificates

command -v docker > /dev/null || give_up "no docker command: install a container engine first (docs/deploy.md)"
docker info > /dev/null 2>&1 || give_up "no container engine answers: start it first (docs/deploy.md)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

has() { docker image inspect "$1" > /dev/null 2>&1; }

# build IMAGE FILE CONTEXT; several may run at once.
build() {
    local image=$1 file=$2 context=$3 log=$work/${1//[\/:]/-}.log
    if ! docker build --file "$file" --build-arg "BASE=$BASE" --tag "$image" "$context" > "$log" 2>&1; then
        [ -z "${DEBUG:-}" ] || sed 's/^/  /' "$log" >&2
        give_up "image $image was not built: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1) (DEBUG=1 shows the whole build)"
    fi
    say "$image: $(($(docker image inspect --format '{{.Size}}' "$image") / 1000000)) MB"
}

make_base() {
    command -v mmdebstrap > /dev/null || give_up "mmdebstrap is missing: apt-get install mmdebstrap"
    local context=$work/base
    mkdir -p "$context/ca"
    find "$AUTHORITIES" -name '*.crt' -exec cp -L {} "$context/ca/" \; 2> /dev/null || true
    touch "$context/ca/.keep"
    mmdebstrap --quiet --variant=apt --include=ca-certificates,passwd "$SUITE" "$context/rootfs.tar" > "$work/log" 2>&1 \
        || give_up "mmdebstrap failed: $(tail -n 1 "$work/log")"
    build "$BASE" compose/standin/base.Dockerfile "$context"
    docker run --rm "$BASE" true || give_up "the engine builds images and cannot run them"
}

make_kafka() {
    local context=$work/kafka
    mkdir -p "$context/jars"
    cp compose/standin/kafka/* "$context/"
    .venv/bin/python - "$context/jars" << 'PYTHON'
import shutil
import sys

from surescale.services.local_stack.artifacts import fetch
from surescale.services.local_stack.artifacts import KAFKA_BROKER

for jar in fetch(KAFKA_BROKER, progress=lambda line: print(line, file=sys.stderr)):
    shutil.copy(jar, sys.argv[1])
PYTHON
    build "$KAFKA" compose/standin/kafka.Dockerfile "$context"
}

has "$BASE" || make_base
makers=()
has "$PYTHON" || { build "$PYTHON" compose/standin/python.Dockerfile compose/standin & makers+=($!); }
has "$REDIS" || { build "$REDIS" compose/standin/redis.Dockerfile compose/standin & makers+=($!); }
has "$PROMETHEUS" || { build "$PROMETHEUS" compose/standin/prometheus.Dockerfile compose/standin & makers+=($!); }
has "$KAFKA" || { make_kafka & makers+=($!); }
failed=0
for maker in "${makers[@]}"; do wait "$maker" || failed=1; done
[ $failed = 0 ] || exit 1
echo "export PYTHON_IMAGE=$PYTHON REDIS_IMAGE=$REDIS KAFKA_IMAGE=$KAFKA PROMETHEUS_IMAGE=$PROMETHEUS"
