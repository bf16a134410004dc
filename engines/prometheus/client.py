"""A client of Prometheus' HTTP API: instant queries, each with a deadline and a limit of bytes and series.

Whatever speaks this API will do: Prometheus, Thanos, Mimir, VictoriaMetrics. A value of an instant query carries the time it was
asked for, not the time it was scraped at. So ``dated`` asks for both in one query; Prometheus gives the time of scraping only of
plain selectors, and of a computed expression the time asked for.
"""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from surescale.contracts.addresses import without_password
from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.contracts.figures import known_count, known_number
from surescale.contracts.wire import decoder
from surescale.engines.prometheus import PrometheusSettings
from surescale.runtime.access import Access, TokenUnreadable
from surescale.runtime.http import LARGE, NoAnswer, Place
from surescale.runtime.http_pool import Answer, ConnectionPool
from surescale.runtime.printable import one_line

ANSWER_TIMEOUT_S = 4.0
ANSWER_BYTES_MAX = 32 * 2**20
SERIES_MAX = 100_000
AT_LABEL = "surescale_at"
"""Label of the series that tell when the others were scraped."""
Labels = dict[str, str]


class PrometheusUnavailable(SurescaleError):
    """No usable answer now: nobody answers, not in time, or not with everything. Asking again, or another replica, may help."""


class QueryRefused(SurescaleError):
    """The expression cannot be evaluated, or its answer is not a set of series with a value each. Asking again does not help."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series at one moment. ``value`` may be NaN or infinite; ``at_ms`` is when it was scraped, as far as that is known."""

    labels: Labels
    value: float
    at_ms: int


class _Series(msgspec.Struct):
    metric: Labels = {}
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct):
    resultType: str = ""  # noqa: N815  # as Prometheus calls it
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    errorType: str = ""  # noqa: N815
    error: str = ""
    warnings: tuple[str, ...] | None = None


class PrometheusClient:
    """One Prometheus. Thread-safe. Every method may raise ``PrometheusUnavailable``."""

    def __init__(self, url: str, access: Access | None = None, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to nothing yet.

        Args:
            url: address, with the path of a proxy in front of it.
            access: token, authorities and certificate.
            timeout_s: how long a whole answer may take.

        Raises:
            SettingsError: a certificate cannot be used.
        """
        self._access, self._timeout_s = access or Access(), timeout_s
        self.url = without_password(url.rstrip("/"))
        self._connections = ConnectionPool(url, self._access.context() if url.lower().startswith("https") else None)

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()

    def now_ms(self) -> int:
        """Return what time it is for Prometheus."""
        with self.keeping_place() as place:
            answer = self._query("time()", None, place)
            try:
                seconds = known_number(msgspec.convert(msgspec.json.decode(answer.result), tuple[float, str])[1])
            except UNREADABLE:
                seconds = None
        at_ms = None if seconds is None else known_count(round(seconds * 1000))
        if at_ms is None:
            raise PrometheusUnavailable(f"{self.url} does not say what time it is; check that it is a Prometheus")
        return at_ms

    def keeping_place(self) -> AbstractContextManager[Place]:
        """Keep the place of a large answer, among the few that are in memory at a time, until the end of the block.

        Ask within it and give it on, and let go of the answer before its end.
        """
        return LARGE.reading(self._timeout_s)

    def dated(self, expression: str, at_ms: int, place: Place | None = None) -> list[Series]:
        """Return the series of an expression at a time, each with the time at which it was scraped. One request.

        ``place``: that is kept for them; None: only while they are read.

        Raises:
            QueryRefused: it cannot be evaluated, or is not a set of series with a value each.
        """
        dates = f'label_replace(timestamp({expression}), "{AT_LABEL}", "1", "", "")'
        found = self.vector(f"({expression}) or {dates}", at_ms, place)
        dated = {_identity(labels): value for labels, value in found if AT_LABEL in labels}
        return [
            Series(labels, value, _milliseconds(dated.get(_identity(labels)), at_ms))
            for labels, value in found
            if AT_LABEL not in labels
        ]

    def vector(self, query: str, at_ms: int, place: Place | None = None) -> list[tuple[Labels, float]]:
        """Return labels and value of every series of a query at a time; ``place`` as in `dated`.

        Raises:
            QueryRefused: it cannot be evaluated, or is not a set of series with a value each.
        """
        if place is None:
            with self.keeping_place() as own:
                return self._decoded(self._query(query, at_ms, own))
        return self._decoded(self._query(query, at_ms, place))

    def _decoded(self, data: _Data) -> list[tuple[Labels, float]]:
        if data.resultType != "vector":
            what = {"matrix": "ranges; leave out [...], growth is computed here"}.get(data.resultType, "no series with labels")
            raise QueryRefused(f"it gives {what}")
        try:
            found = decoder(list[_Series]).decode(data.result)
        except UNREADABLE:
            raise PrometheusUnavailable(f"{self.url} gave an unexpected answer; check that it is a Prometheus") from None
        if len(found) > SERIES_MAX:
            raise QueryRefused(f"it gives {len(found)} series and {SERIES_MAX} is the most; select fewer")
        return [(each.metric, _number(each)) for each in found]

    def _query(self, query: str, at_ms: int | None, place: Place) -> _Data:
        parameters = {"query": query} | ({"time": f"{at_ms / 1000:.3f}"} if at_ms is not None else {})
        try:
            headers = self._access.headers()
            answer = self._connections.ask(
                "GET",
                f"/api/v1/query?{urlencode(parameters)}",
                headers=headers,
                timeout_s=self._timeout_s,
                bytes_max=ANSWER_BYTES_MAX,
                place=place,
            )
        except TokenUnreadable as error:
            raise PrometheusUnavailable(str(error)) from None
        except NoAnswer as error:
            raise PrometheusUnavailable(
                f"{self.url} does not answer ({error}); start it, or correct SURESCALE_PROMETHEUS_URL"
            ) from None
        return self._data_of(answer)

    def _data_of(self, answer: Answer) -> _Data:
        if answer.status in (401, 403):
            raise PrometheusUnavailable(
                f"{self.url} refuses access ({answer.status}); set SURESCALE_PROMETHEUS_TOKEN_FILE to a file with a valid token"
            )
        if 300 <= answer.status < 400:
            where = answer.location or "another address"
            raise PrometheusUnavailable(f"{self.url} points to {where}; set SURESCALE_PROMETHEUS_URL to it")
        try:
            said = decoder(_Answer).decode(answer.body)
        except UNREADABLE:
            raise PrometheusUnavailable(
                f"{self.url} does not answer as Prometheus does ({answer.status} {answer.reason}); "
                "correct SURESCALE_PROMETHEUS_URL, with the path of a proxy in front of it"
            ) from None
        if said.errorType in ("bad_data", "execution"):
            raise QueryRefused(
                f"Prometheus says {one_line(said.error)}; correct it: counters themselves, without rate() and [...]"
            )
        if said.status != "success" or answer.status >= 300:
            raise PrometheusUnavailable(f"{self.url}: {one_line(said.error) or answer.status}; trying again")
        if said.warnings:  # a part of the stores did not answer: what is missing would look as if it had ended
            raise PrometheusUnavailable(f"{self.url} may have left out series: {one_line(said.warnings[0])}")
        return said.data


def _identity(labels: Labels) -> frozenset[tuple[str, str]]:
    return frozenset(each for each in labels.items() if each[0] not in ("__name__", AT_LABEL))


def _number(series: _Series) -> float:
    if series.value is None:
        raise QueryRefused("it gives native histograms; take histogram_sum() or histogram_count() of them")
    try:
        return float(series.value[1])
    except ValueError:
        return math.nan


def _milliseconds(seconds: float | None, at_ms: int) -> int:
    """Return a time of scraping, never after the time asked for; that time itself if it is not known."""
    if seconds is None or not 0 <= seconds <= at_ms / 1000:
        return at_ms
    return round(seconds * 1000)


def replicas_of(settings: PrometheusSettings) -> list[PrometheusClient]:
    """Return a client of each replica, in the order in which they are to be asked; nothing is asked yet.

    Raises:
        SettingsError: a certificate cannot be used.
    """
    access = Access(
        settings.prometheus_token_file,
        settings.prometheus_ca_file,
        settings.prometheus_certificate_file,
        settings.prometheus_key_file,
        settings="SURESCALE_PROMETHEUS",
    )
    return [PrometheusClient(url, access) for url in settings.prometheus_urls()]
