#!/usr/bin/env bash
# The pipeline in containers: pipeline.sh up | down | status | logs [SERVICE...] | surescale COMMAND...
# Settings come from compose/.env (else compose/.env.example); environment variables override them. A failure is one line on
# standard error starting with "surescale:", a non-zero exit code, and nothing left running.
set -uo pipefail
cd "$(dirname "$0")"
FILE=compose.yaml
say() { echo "surescale: $*" >&2; }
give_up() { say "$*"; exit 1; }
SETTINGS=${ENV_FILE:-.env}
if [ ! -f "$SETTINGS" ]; then
    # Falling back to the demo instead of the requested file would drop its volumes.
    [ -z "${ENV_FILE:-}" ] || give_up "ENV_FILE: $ENV_FILE is no file; give its whole path, or unset it for compose/.env"
    SETTINGS=.env.example
fi
# The last line; only the message if it is a role's JSON.
last_line() {
    grep -v '^[[:space:]]*$' "$1" | tail -n 1 \
        | sed -E -e 's/^surescale: //' -e 's/^\{.*"message": "(([^"\\]|\\.)*)".*$/\1/' | cut -c 1-400
}

# The file's values, unless the environment sets them; quotes around a whole value are dropped.
read_settings() {
    local line name value
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%$'\r'}
        case $line in '' | '#'*) continue ;; esac
        name=${line%%=*}
        [[ $name =~ ^[A-Z_][A-Z0-9_]*$ ]] || give_up "$SETTINGS: ${line@Q} is not NAME=value"
        value=${line#*=}
        if [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]]; then value=${BASH_REMATCH[1]}; fi
        [ -n "${!name+set}" ] || export "$name=$value"
    done < "$SETTINGS"
    export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-surescale}
    case ${SURESCALE_SECURE:-false} in
        true | false) ;;
        *) give_up "SURESCALE_SECURE: ${SURESCALE_SECURE@Q} is neither true nor false" ;;
    esac
    for name in SURESCALE_ENGINE_URL SURESCALE_PIPELINE_CLOCK; do
        [ -n "${!name:-}" ] || give_up "$name is not set; compose/.env.example says what it means"
    done
    [ -z "${ENGINE_FILES:-}" ] || [ -d "$ENGINE_FILES" ] || give_up "ENGINE_FILES: $ENGINE_FILES is no folder; give its whole path"
}

find_engine() {
    command -v docker > /dev/null || give_up "no docker command: install a container engine (docs/deploy.md), or use 'surescale up'"
    docker info --format '{{.ServerVersion}}' > "$scratch" 2>&1 || give_up "no container engine answers: $(last_line "$scratch")"
    if docker compose version > /dev/null 2>&1; then
        compose=(docker compose)
    elif command -v docker-compose > /dev/null; then
        compose=(docker-compose)
    else
        give_up "neither 'docker compose' nor 'docker-compose' is installed (Debian: apt-get install docker-compose)"
    fi
    compose+=(--file "$FILE")
    ! is_secure || compose+=(--file secure/compose.yaml)
    [ -z "${ENGINE_NETWORK:-}" ] || compose+=(--file own-engine/network.yaml)
    [ -z "${ENGINE_FILES:-}" ] || compose+=(--file own-engine/files.yaml)
    compose+=(--env-file "$SETTINGS" --project-name "$COMPOSE_PROJECT_NAME")
}

is_secure() { [ "${SURESCALE_SECURE:-false}" = true ]; }
has_profile() { [[ ,${COMPOSE_PROFILES:-}, == *,$1,* ]]; }
scheme() { if is_secure; then echo https; else echo http; fi; }
has_prometheus() { has_profile observability || has_profile prometheus; }

# Every image the chosen profiles need; ours are built if missing, never pulled.
have_images() {
    local image role images=("${KAFKA_IMAGE:-apache/kafka:4.2.1}" "${REDIS_IMAGE:-redis:7}")
    ! has_prometheus || images+=("${PROMETHEUS_IMAGE:-prom/prometheus:v3.5.0}")
    ! has_profile observability || images+=("${GRAFANA_IMAGE:-grafana/grafana:12.0.0}")
    for image in "${images[@]}"; do
        docker image inspect "$image" > /dev/null 2>&1 && continue
        say "$image: pulling"
        docker pull --quiet "$image" > "$scratch" 2>&1 \
            || give_up "image $image cannot be had ($(last_line "$scratch")); KAFKA_IMAGE, REDIS_IMAGE, ... name others"
    done
    roles=(monitor spark agent rescaler state-service)
    ! has_profile demo || roles+=(engine)
    for role in "${roles[@]}"; do
        image=${SURESCALE_REGISTRY:-surescale}/$role:${SURESCALE_TAG:-$(version)}
        docker image inspect "$image" > /dev/null 2>&1 && continue
        if [ -n "${SURESCALE_REGISTRY:-}" ] && docker pull --quiet "$image" > "$scratch" 2>&1; then continue; fi
        say "$image: building"
        ./build.sh "$role" || exit 1
    done
}

version() { sed -n 's/^version = "\(.*\)"/\1/p' ../pyproject.toml; }

# Name a port that is taken before anything starts; containers already running under our name may hold theirs.
check_ports() {
    [ -z "$(running)" ] || return 0
    local name port names=(SURESCALE_HTTP_PORT KAFKA_PORT)
    ! has_prometheus || names+=(PROMETHEUS_PORT)
    ! has_profile observability || names+=(GRAFANA_PORT)
    for name in "${names[@]}"; do
        port=${!name:-}
        [ -n "$port" ] || continue
        if (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; then
            give_up "port $port of 127.0.0.1 is taken; set $name to another one"
        fi
    done
}

running() { docker ps --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"; }

take_down() {
    local volumes=()
    # The demo's trace restarts every time, and old topics would contradict it.
    ! has_profile demo || volumes=(--volumes)
    COMPOSE_PROFILES=demo,observability "${compose[@]}" down --remove-orphans "${volumes[@]}" > "$scratch" 2>&1 \
        || give_up "could not take everything down: $(last_line "$scratch")"
}

# Prints "NAME STATE HEALTH EXIT-CODE RESTARTS" of each container of the project.
states() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" | xargs -r docker inspect --format \
        '{{index .Config.Labels "com.docker.compose.service"}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{else}}none{{end}} {{.State.ExitCode}} {{.RestartCount}}'
}

is_waiting() { states | awk '$3 == "starting" || $3 == "unhealthy" || $2 == "restarting" {waiting = 1} END {exit !waiting}'; }
# One restart may be bad luck; three mean a wrong setting.
is_hopeless() { states | awk '$5 >= 3 {hopeless = 1} END {exit !hopeless}'; }

# The first unhealthy container, with its last log line.
culprit() {
    local found name state health code restarts words
    found=$(states | awk '($2 == "exited" && $4 != 0) || $5 >= 3 || $3 == "unhealthy" || $2 == "restarting"' | head -n 1)
    [ -n "$found" ] || found=$(states | awk '$2 == "running" && ($3 == "starting" || $1 == "topics")' | head -n 1)
    [ -n "$found" ] || return 0
    read -r name state health code restarts <<< "$found"
    case $state:$health:$restarts in
        exited:* | *:*:[1-9]*) state="ended with exit code $code" ;;
        *:none:*) state="is not done" ;;
        *) state="is $health" ;;
    esac
    docker ps --all --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
        --filter "label=com.docker.compose.service=$name" | head -n 1 | xargs docker logs --tail 5 > "$scratch" 2>&1
    words=$(last_line "$scratch")
    echo "$name $state${words:+; its last words: $words}"
}

up() {
    ! is_secure || secure/secrets.sh || exit 1
    [ -z "${ENGINE_NETWORK:-}" ] || docker network inspect "$ENGINE_NETWORK" > /dev/null 2>&1 \
        || give_up "ENGINE_NETWORK: no network $ENGINE_NETWORK; start the engine first, and see docker network ls"
    have_images
    check_ports
    trap 'say "interrupted"; take_down; exit 130' INT TERM
    local deadline=$((SECONDS + ${UP_TIMEOUT_S:-300})) started=$SECONDS why
    if ! timeout "${UP_TIMEOUT_S:-300}" "${compose[@]}" up --detach --no-build --scale "agent=${AGENTS:-1}" > "$scratch.up" 2>&1; then
        why=$(culprit)
        why=${why:-$(last_line "$scratch.up")}
        take_down
        give_up "the pipeline did not come up: $why"
    fi
    while is_waiting; do
        if [ $SECONDS -ge $deadline ] || is_hopeless; then
            why=$(culprit)
            take_down
            give_up "the pipeline was not healthy after $((SECONDS - started)) s: $why"
        fi
        sleep 1
    done
    say "the pipeline is up after $((SECONDS - started)) s; $(scheme)://127.0.0.1:${SURESCALE_HTTP_PORT:-8070}/ has the page and the state API"
    ! is_secure || say "tokens, passwords and the authority's certificate: compose/secure/generated"
    ! has_profile demo || say "the trace: compose/pipeline.sh logs --follow trace"
    ! has_prometheus || say "Prometheus: http://127.0.0.1:${PROMETHEUS_PORT:-9090}/"
    ! has_profile observability || say "the dashboard: http://127.0.0.1:${GRAFANA_PORT:-3000}/"
}

scratch=$(mktemp)
trap 'rm -f "$scratch" "$scratch.up"' EXIT
action=${1:-}
[ $# -eq 0 ] || shift
case $action in
    up | down | status | logs | surescale) read_settings && find_engine ;;
    *) say "usage: pipeline.sh up | down | status | logs [SERVICE...] | surescale COMMAND..."; exit 2 ;;
esac
case $action in
    up) up ;;
    down) take_down && say "the pipeline is down" ;;
    status) states | sort ;;
    logs) "${compose[@]}" logs --no-color "$@" ;;
    surescale) # in a container that reaches Kafka and Redis
        [ -n "$(running)" ] || give_up "the pipeline is not up; start it with make up"
        terminal=()
        [ -t 0 ] && [ -t 1 ] || terminal=(-T)
        exec "${compose[@]}" exec "${terminal[@]}" state surescale "$@"
        ;;
esac
