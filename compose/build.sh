#!/usr/bin/env bash
# Builds the images of the named roles (default: all) and prints their sizes. Optional variables:
#   PYTHON_IMAGE  base image              APT_MIRROR, PYPI_INDEX, MAVEN_REPOSITORY  where packages come from
#   JAVA_PACKAGE  of the Spark image      (openjdk-21-jre-headless)
#   MSK=true      with the libraries of AWS MSK's IAM, of AWS
#   SURESCALE_REGISTRY (surescale), SURESCALE_TAG (the project's version)          names of the images
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "surescale: $*" >&2; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
registry=${SURESCALE_REGISTRY:-surescale}
tag=${SURESCALE_TAG:-$version}
roles=("$@")
[ ${#roles[@]} -gt 0 ] || roles=(monitor rescaler engine state-service agent spark)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Send only this to the engine: no environment, no data, no history.
context() {
    tar --create --exclude=__pycache__ --exclude=node_modules --exclude='*.egg-info' pyproject.toml README.md LICENSE NOTICE locks/bootstrap.txt locks/images \
        compose/{Dockerfile,install.sh,strip.py,fetch_spark_jars.py,spark_executor.sh,licences.py,demo} \
        src contracts engines policies simulation runtime monitor spark_streaming services rescaler model_export
}

arguments=()
for name in PYTHON_IMAGE APT_MIRROR PYPI_INDEX MAVEN_REPOSITORY MSK; do
    [ -z "${!name:-}" ] || arguments+=(--build-arg "$name=${!name}")
done

for role in "${roles[@]}"; do
    [ -f "locks/images/$role.txt" ] || { say "no such role: $role; locks/images/ lists them"; exit 2; }
    image=$registry/$role:$tag
    own=(--build-arg "ROLE=$role")
    [ "$role" != spark ] || own+=(--build-arg "JAVA_PACKAGE=${JAVA_PACKAGE:-openjdk-21-jre-headless}")
    if ! context | docker build --file compose/Dockerfile "${own[@]}" "${arguments[@]}" --tag "$image" - > "$log" 2>&1
    then
        [ -z "${DEBUG:-}" ] || sed 's/^/  /' "$log" >&2
        say "image $image was not built: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1) (DEBUG=1 shows the whole build)"
        exit 1
    fi
    bytes=$(docker image inspect --format '{{.Size}}' "$image")
    echo "$image: $((bytes / 1000000)) MB"
done
