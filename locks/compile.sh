#!/usr/bin/env bash
# Writes the lock files anew: names, versions and hashes, no addresses. Run by `make locks`.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-annotate "$@"
}
runtime=(--extra kafka --extra onnx --extra agent --extra spark --extra redis --extra http --extra placement
         --extra local --extra test --extra lint)
echo "uv==0.13.9" | compile - -o locks/bootstrap.txt
compile pyproject.toml "${runtime[@]}" -o locks/runtime.txt
compile pyproject.toml "${runtime[@]}" --extra train -c locks/runtime.txt -o locks/train.txt
