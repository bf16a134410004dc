"""The gRPC server of KEDA's external scaler, in the state service's event loop."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc
import redis

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.foreign_files import contents, in_time
from surescale.runtime.ports import LOOPBACK
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
CALLS_MAX = 1_000
CONNECTIONS_MAX = 100
"""KEDA's operator keeps one; without a limit, whoever reaches the port could take every descriptor of the process."""
GREETS_WITHIN_S = 5.0
IDLE_S = 300.0
LOOKING_MAX = 4
"""Looks at the view at a time, in threads of their own: those of the HTTP API do not wait for them."""
REQUEST_BYTES_MAX = 64 * 1024
END_WITHIN_S = 1.0
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
        self._looking = ThreadPoolExecutor(LOOKING_MAX, "a look for KEDA")

    async def start(self) -> int:
        """Open the port and return it.

        Raises:
            SettingsError: it is taken.
        """
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
            ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
            ("grpc.server_handshake_timeout_ms", int(GREETS_WITHIN_S * 1_000)),
            ("grpc.max_connection_idle_ms", int(IDLE_S * 1_000)),
        ]
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=CALLS_MAX)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        if self._certificate is None:
            inner: int = self._server.add_insecure_port(f"{LOOPBACK}:0")
        else:
            inner = self._server.add_secure_port(f"{LOOPBACK}:0", self._certificate.credentials())
        await self._server.start()
        self._door = Door((LOOPBACK, inner), CONNECTIONS_MAX)
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
        self._looking.shutdown(wait=False, cancel_futures=True)

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


class _Certificate:
    """The HTTP API's certificate for gRPC, and whose clients are let in; read again when a file changes."""

    def __init__(self, settings: StateSettings, log: logging.Logger) -> None:
        self._pair, self._authorities = (settings.http_certificate_file, settings.http_key_file), settings.keda_client_ca_file
        self._log, self._stamp = log, stamps_of((*self._pair, self._authorities))
        try:
            self._configuration = self._read()
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"SURESCALE_HTTP_CERTIFICATE_FILE, _KEY_FILE, SURESCALE_KEDA_CLIENT_CA_FILE: cannot be used ({error}); "
                "set them to PEM files"
            ) from None

    def credentials(self) -> Any:
        """Return what the server shows, and asks for."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration, self._changed, require_client_authentication=bool(self._authorities)
        )

    def _changed(self) -> Any:
        """Return files that have changed, for connections from now on; None: those before stay."""
        try:
            stamp = in_time(lambda: stamps_of((*self._pair, self._authorities)))
            if stamp == self._stamp:
                return None
            self._stamp = stamp
            self._configuration = in_time(self._read)
        except (OSError, ssl.SSLError) as error:
            self._log.warning("the certificate for KEDA has changed and cannot be used, the one before it stays: %s", error)
            return None
        return self._configuration

    def _read(self) -> Any:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._pair)  # gRPC itself would only refuse every client
        if self._authorities:
            context.load_verify_locations(self._authorities)
        certificate, key = map(contents, self._pair)
        authorities = contents(self._authorities) if self._authorities else None
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
