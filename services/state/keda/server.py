"""The gRPC server of KEDA's external scaler, in the state service's event loop."""

import asyncio
import logging
import os
import shutil
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
import redis

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.foreign_files import contents, in_time
from surescale.runtime.backoff import Throttle
from surescale.runtime.printable import one_line
from surescale.services.state.access import stamps_of
from surescale.services.state.keda.answers import BadMetadata, NoSize, Target, is_active, size_of, target_of
from surescale.services.state.keda.door import Door
from surescale.services.state.keda.messages import (
    SERVICE,
    GetMetricSpecResponse,
    GetMetricsRequest,
    GetMetricsResponse,
    IsActiveResponse,
    MetricSpec,
    MetricValue,
    ScaledObjectRef,
)
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.stored import UnreadableView
from surescale.services.state.read.view import NotFound
from surescale.services.state.redis_guard import in_words
from surescale.services.state.settings import StateSettings

T = TypeVar("T")

METRIC = "surescale-desired-parallelism"
LOOK_EVERY_S = 5.0
OF_EACH_MAX = 8
"""KEDA's operator keeps one for each spelling of the address; behind a proxy, several clients have its address."""
OF_EACH_PROVEN_MAX = 64
"""Where clients show certificates, KEDA's operator keeps one for each of them: every namespace may have its own, and what was
renewed stays for half an hour."""
CALLS_OF_A_CONNECTION = 1_000
"""At once. All ScaledObjects that KEDA's operator has on one connection, and each with a push trigger keeps a call open."""
CALLS_MAX = (OF_EACH_MAX + 1) * CALLS_OF_A_CONNECTION
"""More than one address has connections for unless it shows certificates, so it cannot take all calls and keep them, as by halves
of requests. A call that waits takes 18 KB."""
CONNECTIONS_MAX = 200
"""Without a limit, whoever reaches the port could take every descriptor of the process."""
GREETS_WITHIN_S = 5.0
IDLE_S = 300.0
LOOKING_MAX = 4
"""Looks at the view at a time, in threads of their own: those of the HTTP API do not wait for them."""
REQUEST_BYTES_MAX = 64 * 1024
END_WITHIN_S = 1.0
_FOLDER, _SOCKET = "surescale-keda-", "socket"
_TRY_S = 1.0
_CODES: dict[type[SurescaleError], grpc.StatusCode] = {
    BadMetadata: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    NoSize: grpc.StatusCode.FAILED_PRECONDITION,
    UnreadableView: grpc.StatusCode.UNAVAILABLE,
}


class ExternalScaler:
    """Answers KEDA until it is stopped."""

    def __init__(self, settings: StateSettings, queries: Queries, log: logging.Logger) -> None:
        """Listen to nobody yet.

        Raises:
            SettingsError: a file of the certificate cannot be used.
        """
        self._settings, self._queries = settings, queries
        self._certificate = _Certificate(settings, log) if settings.http_certificate_file else None
        self._server: Any = None
        self._door: Door | None = None
        self._folder: Path | None = None
        self._watching: asyncio.Task[None] | None = None
        self._looking = ThreadPoolExecutor(LOOKING_MAX, "a look for KEDA")

    async def start(self) -> int:
        """Open the port and return it.

        Raises:
            SettingsError: it is taken.
        """
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
            ("grpc.max_concurrent_streams", CALLS_OF_A_CONNECTION),
            # gRPC would otherwise refuse calls at random while more than a thousand are new.
            ("grpc.server.max_pending_requests", CALLS_MAX),
            ("grpc.server.max_pending_requests_hard_limit", CALLS_MAX),
            ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
            ("grpc.server_handshake_timeout_ms", int(GREETS_WITHIN_S * 1_000)),
            ("grpc.max_connection_idle_ms", int(IDLE_S * 1_000)),
        ]
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=CALLS_MAX)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        inner = self._private_socket()
        if self._certificate is not None:
            self._watching = asyncio.create_task(self._certificate.watch())
        await self._server.start()
        self._door = Door(inner, CONNECTIONS_MAX, OF_EACH_PROVEN_MAX if self._settings.keda_client_ca_file else OF_EACH_MAX)
        host, port = self._settings.http_host, self._settings.keda_port
        try:
            return await self._door.open(host, port)
        except OSError:
            await self.stop()
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise SettingsError(f"SURESCALE_KEDA_PORT: {address} cannot be opened; choose another port or address") from None

    async def stop(self) -> None:
        """End all calls, and close the port."""
        if self._door is not None:
            self._door.shut()
        await self._server.stop(END_WITHIN_S)  # until then calls are answered, so through the door
        if self._door is not None:
            await self._door.close()
        if self._watching is not None:
            self._watching.cancel()
        self._clear()
        self._looking.shutdown(wait=False, cancel_futures=True)

    def _private_socket(self) -> str:
        """Have the server listen where nobody but the door comes: other users of this machine may reach any loopback port.

        Raises:
            SettingsError: there is no folder for it.
        """
        try:
            _remove_left()
            self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER))  # only this user may enter it
            inner = f"{self._folder}/{_SOCKET}"
            if self._certificate is None:
                self._server.add_insecure_port(f"unix:{inner}")
            else:
                self._server.add_secure_port(f"unix:{inner}", self._certificate.credentials())
        except (OSError, RuntimeError) as error:
            folder = self._folder or "a folder for temporary files"
            self._clear()
            raise SettingsError(
                f"SURESCALE_KEDA_PORT: needs a socket in {folder} ({error}); set TMPDIR to a short path that may be written"
            ) from None
        return inner

    def _clear(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _handlers(self) -> dict[str, Any]:
        ref, request = ScaledObjectRef.FromString, GetMetricsRequest.FromString
        active, spec = IsActiveResponse.SerializeToString, GetMetricSpecResponse.SerializeToString
        metrics = GetMetricsResponse.SerializeToString
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return {
            "IsActive": unary(self._is_active, ref, active),
            "StreamIsActive": stream(self._stream_is_active, ref, active),
            "GetMetricSpec": unary(self._metric_spec, ref, spec),
            "GetMetrics": unary(self._metrics, request, metrics),
        }

    async def _is_active(self, ref: Any, context: Any) -> Any:
        return IsActiveResponse(result=await self._told(is_active, ref, context))

    async def _stream_is_active(self, ref: Any, context: Any) -> AsyncIterator[Any]:
        said: bool | None = None
        while True:
            active = await self._told(is_active, ref, context)
            if active is not said:
                yield IsActiveResponse(result=active)
            said = active
            await asyncio.sleep(LOOK_EVERY_S)

    async def _metric_spec(self, ref: Any, context: Any) -> Any:
        """Tell the target without a look at the view: KEDA leaves a trigger out that cannot say it."""
        await self._told(lambda _queries, _target: None, ref, context)
        return GetMetricSpecResponse(metricSpecs=[MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)])

    async def _metrics(self, request: Any, context: Any) -> Any:
        size = await self._told(size_of, request.scaledObjectRef, context)
        return GetMetricsResponse(metricValues=[MetricValue(metricName=METRIC, metricValue=size, metricValueFloat=float(size))])

    async def _told(self, ask: Callable[[Queries, Target], T], ref: Any, context: Any) -> T:
        """Return an answer, or end the call with a line that says why there is none; KEDA logs it, and holds."""
        try:
            target = target_of({each.key: each.value for each in ref.scalerMetadata})
            return await asyncio.get_running_loop().run_in_executor(self._looking, ask, self._queries, target)
        except redis.RedisError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the view in Redis cannot be read now: {in_words(error)}")
        except SurescaleError as error:
            await context.abort(_CODES.get(type(error), grpc.StatusCode.INTERNAL), one_line(str(error)))
        raise AssertionError("a call that was ended goes on")


def _remove_left() -> None:
    """Remove the folders that processes of this user left when they were killed: nobody listens in them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        if folder.lstat().st_uid != os.getuid():
            continue
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(_TRY_S)
            try:
                tried.connect(str(folder / _SOCKET))
            except ConnectionRefusedError:
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                pass  # it has just begun, or is busy


class _Certificate:
    """The HTTP API's certificate for gRPC, and whose clients are let in; read again when a file changes."""

    def __init__(self, settings: StateSettings, log: logging.Logger) -> None:
        self._pair, self._authorities = (settings.http_certificate_file, settings.http_key_file), settings.keda_client_ca_file
        self._files = tuple(filter(None, (*self._pair, self._authorities)))
        self._log, self._seldom = log, Throttle()
        self._stamp: tuple[int, ...] = ()
        try:
            self._stamp, self._configuration = in_time(self._look, *self._files)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"SURESCALE_HTTP_CERTIFICATE_FILE, _KEY_FILE, SURESCALE_KEDA_CLIENT_CA_FILE: cannot be used ({error}); "
                "set them to PEM files"
            ) from None
        self._news: Any = None

    def credentials(self) -> Any:
        """Return what the server shows, and asks for."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration, self._changed, require_client_authentication=bool(self._authorities)
        )

    async def watch(self) -> NoReturn:
        """Take files that have changed, until cancelled. gRPC asks while a connection waits, so nobody looks at the disk then."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                stamp, found = await asyncio.to_thread(in_time, self._look, *self._files)
            except (OSError, ssl.SSLError) as error:
                if self._seldom.is_time():
                    self._log.warning(
                        "the certificate for KEDA has changed and cannot be used, the one before it stays: %s", error
                    )
                continue
            if stamp != self._stamp:
                self._stamp, self._news = stamp, found

    def _changed(self) -> Any:
        """Return files that have changed, for connections from now on; None: those before stay."""
        news, self._news = self._news, None
        return news

    def _look(self) -> tuple[tuple[int, ...], Any]:
        """Return what the files are now, and what gRPC makes of them if they are not as they were.

        Raises:
            OSError: one cannot be read.
            ssl.SSLError: one is not what it should be.
        """
        stamp = stamps_of(self._files)
        return stamp, (None if stamp == self._stamp else self._read())

    def _read(self) -> Any:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._pair)  # gRPC itself would only refuse every client
        if self._authorities:
            context.load_verify_locations(self._authorities)
        certificate, key = map(contents, self._pair)
        authorities = contents(self._authorities) if self._authorities else None
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
