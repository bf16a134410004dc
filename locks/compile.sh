#!/usr/bin/env bash
# Writes the lock files again: names, versions and hashes, no addresses. Run by `make locks`.
set -euo pipefail
cd "$(dirname "$0")/.."
# With --upgrade the newest versions that fit, else those that the lock files already name.
upgrade=("$@")
compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-annotate "${upgrade[@]}" "$@"
}
runtime=(--extra kafka --extra onnx --extra agent --extra spark --extra redis --extra http --extra placement
         --extra local --extra keda --extra telemetry --extra msk --extra evidence --extra test --extra lint)
echo "uv==0.13.9" | compile - -o locks/bootstrap.txt
compile pyproject.toml "${runtime[@]}" -o locks/runtime.txt
compile pyproject.toml "${runtime[@]}" --extra train -c locks/runtime.txt -o locks/train.txt
# The site of docs/, in an environment of its own.
compile --group docs -o locks/docs.txt
# The server of tests/support/object_store.py, which runs in an environment of its own.
compile --group object-store -o locks/object-store.txt

# The Flink distributions of the local stack: a package with no dependency that matters here, fetched but never installed.
for version in 2.3.0 2.2.1 1.20.5; do
    echo "apache-flink-libraries==$version" | compile --no-deps - -o "services/local_stack/flink/locks/$version.txt"
done

# What each image of compose/ installs: a part of runtime.txt, at the same versions.
image() {
    local role=$1
    shift
    compile pyproject.toml "$@" -c locks/runtime.txt -o "locks/images/$role.txt"
}
mkdir -p locks/images
echo "setuptools" | compile - -c locks/runtime.txt -o locks/images/build.txt
image monitor --extra kafka --extra telemetry
image rescaler --extra kafka --extra telemetry
image engine --extra kafka --extra http --extra telemetry
image state-service --extra kafka --extra redis --extra http --extra keda --extra telemetry
image agent --extra kafka --extra onnx --extra agent --extra telemetry
image spark --extra kafka --extra spark --extra telemetry
# What images have besides if they are built with MSK=true.
image msk --extra kafka --extra telemetry --extra msk
