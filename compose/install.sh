#!/bin/sh
# Run by the Dockerfile during an image build: install.sh WHAT... (arguments of `uv pip install`). Keeps only what this call
# added to /opt/surescale, so that each step is a separate layer that images can share.
set -eu
home=/opt/surescale
touch /began
sleep 0.1
[ -d "$home" ] || python3 -m venv --without-pip "$home"
PYTHONPATH=/build/setuptools /build/uv/bin/uv pip install --quiet --no-cache --python "$home/bin/python" --no-build-isolation \
    ${PYPI_INDEX:+--default-index "$PYPI_INDEX"} "$@"
find "$home" ! -type d ! -cnewer /began -delete
# Tests, headers, types and what extensions are compiled from; Spark's shell for remote sessions; the state store that the snapshot
# stage does not use; what colours source code, builds or tests numpy's extensions, converts networks or asks a schema registry;
# messages of Google's own services, which come with OpenTelemetry's; and libraries that are there twice (zstandard's for PyPy,
# onnxruntime's for C). numpy's compiler of Fortran stays: `from numpy import *`, as in scipy, loads it.
find "$home" -type d \( -name tests -o -name include -o -name connect-repl -o -path '*/pygments/lexers' \
    -o -path '*/numpy/distutils' -o -path '*/confluent_kafka/schema_registry' \
    -o -path '*/google/api' -o -path '*/google/cloud' -o -path '*/google/gapic' -o -path '*/google/logging' \
    -o -path '*/google/longrunning' -o -path '*/google/rpc' -o -path '*/google/type' \
    -o -path '*/onnxruntime/transformers' -o -path '*/onnxruntime/quantization' -o -path '*/onnxruntime/tools' \) \
    -prune -exec rm -rf {} +
find "$home" \( -name 'rocksdbjni-*.jar' -o -name '*.py[ix]' -o -name '*.pxd' -o -name '*.[ach]' -o -name '*.proto' \
    -o -path '*/numpy/_core/_simd.*.so' -o -path '*/zstandard/_cffi.*.so' -o -path '*/zstandard/backend_cffi.py' \
    -o -path '*/capi/libonnxruntime.so.*' \) -delete
python3 /build/strip.py "$home"
# Check by content, since copying may change times.
find "$home" -name site-packages -exec python3 -m compileall -q -j 2 --invalidation-mode unchecked-hash {} +
find "$home" -mindepth 1 -type d -empty -delete
