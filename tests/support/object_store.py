"""An object store that speaks S3: a server of its own, in an environment of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from urllib.error import URLError
from urllib.request import Request, urlopen

from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem  # type: ignore[import-untyped]

from surescale.runtime.ports import free_port
from surescale.spark_streaming.places import Place
from tests.support.waiting import wait_until

BUCKET = "windows-of-tests"
_LOCKS = Path(__file__).parents[2] / "locks"
_UV = [sys.executable, "-m", "uv", "run", "--no-project"]
_START_TIMEOUT_S = 240.0  # the first time its packages are fetched


def impatient(path: str) -> Place:
    """Return a place in the bucket whose client tries once; of its own accord it tries for six seconds."""
    files = S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"], retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1)
    )
    return Place(files, f"{BUCKET}/{path}", f"s3://{BUCKET}/{path}")


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Run one with an empty bucket; yield the variables that lead a client there, which this process has meanwhile."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {
        "AWS_ENDPOINT_URL": url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    server = subprocess.Popen(
        [*_UV, "--with-requirements", "object-store.txt", "moto_server", "-H", "127.0.0.1", "-p", str(port)],
        cwd=_LOCKS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def has_bucket() -> bool:
        assert server.poll() is None, "the object store ended: is there a package index that `uv` can reach?"
        try:
            urlopen(Request(f"{url}/{BUCKET}", method="PUT"), timeout=20).close()
        except URLError:
            return False
        return True

    try:
        wait_until(has_bucket, _START_TIMEOUT_S, "the object store")
        with mock.patch.dict(os.environ, variables):
            yield variables
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(20)
