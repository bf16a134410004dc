"""How busy Java clients are, from the poll idle ratio that Kafka's client shows of itself, as exporters write it."""

import contextlib
from collections.abc import Iterator

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.engines.groups.busy import Busy, busy_of
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.groups.members import Member
from tests.support.http_server import Handler, serving
from tests.unit.engines.groups.test_job import Broker, Followed, parts

JMX = """\
# HELP kafka_consumer_consumer_metrics_poll_idle_ratio_avg The average fraction of time the consumer's poll() is idle as opposed \
to waiting for the user code to process records. kafka.consumer:name=null,type=consumer-metrics,attribute=poll-idle-ratio-avg
# TYPE kafka_consumer_consumer_metrics_poll_idle_ratio_avg untyped
kafka_consumer_consumer_metrics_poll_idle_ratio_avg{client_id="\\"shop:parse,2\\""} NaN
kafka_consumer_consumer_metrics_poll_idle_ratio_avg{client_id="consumer-shop-parse-1"} 0.22752005375801027
"""
"""Of kafka-clients 3.9.0, by jmx_prometheus_javaagent 1.0.1 with the rule ``.*``. JMX puts a client id with a colon in quotes."""
MICROMETER = """\
# HELP kafka_consumer_poll_idle_ratio_avg The average fraction of time the consumer's poll() is idle as opposed to waiting for \
the user code to process records.
# TYPE kafka_consumer_poll_idle_ratio_avg gauge
kafka_consumer_poll_idle_ratio_avg{client_id="consumer-shop-parse-1",kafka_version="3.9.0"} 0.22752005375801027
kafka_consumer_poll_idle_ratio_avg{client_id="shop:parse,2",kafka_version="3.9.0"} NaN
"""
"""The same two clients by Micrometer 1.16.8."""
ORDERS = parts("orders", 4)


@contextlib.contextmanager
def showing(pages: dict[str, str]) -> Iterator[str]:
    """Serve pages by path; gives the address. A busy machine may take its time to answer."""

    class Metrics(Handler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.reply(200 if page is not None else 503, (page or "").encode(), "text/plain")

    with serving(Metrics) as url, pytest.MonkeyPatch.context() as patch:
        for limit in ("ANSWER_TIMEOUT_S", "ALL_WITHIN_S"):
            patch.setattr(f"surescale.engines.groups.busy.{limit}", 60.0)
        yield url


def told(page: str, *client_ids: str) -> list[Busy]:
    """Return what members with these client ids tell by one page."""
    members = tuple(Member(str(at), each, "h", frozenset()) for at, each in enumerate(client_ids))
    with showing({"/m": page}) as url:
        return busy_of({"parse": (Group(metrics=f"{url}/m"), members)})["parse"]


@pytest.mark.parametrize("page", [JMX, MICROMETER], ids=["jmx", "micrometer"])
def test_each_client_of_a_process_is_told_by_its_id(page: str) -> None:
    """One that did not poll for a minute is not a number: unknown, neither idle nor busy."""
    one, odd, other = told(page, "consumer-shop-parse-1", "shop:parse,2", "consumer-shop-parse-3")
    assert one.share == pytest.approx(1 - 0.22752005375801027)
    assert (odd.share, odd.seconds) == (None, None)
    assert "shows NaN for poll_idle_ratio_avg, which is no share (member shop:parse,2)" in odd.problem
    assert "no series of poll_idle_ratio_avg with its client id, not one (member consumer-shop-parse-3)" in other.problem


@pytest.mark.parametrize("value", ["NaN", "-0.1", "1.01", "+Inf", "soon", ""])
def test_what_is_no_share_is_unknown(value: str) -> None:
    """Never 0: a member of which nobody knows is not idle."""
    (found,) = told(f'kafka_consumer_poll_idle_ratio_avg{{client_id="a"}} {value}\n', "a")
    assert found.share is None
    assert found.problem


@pytest.mark.parametrize(
    ("page", "share"),
    [
        ("app_poll_idle_ratio_avg 0.25\n", 0.75),  # rules that drop the label: the page is of one client
        ('x_poll_idle_ratio_avg{clientId="a",} 0 1700000000000\n', 1.0),
        ('x_poll_idle_ratio_avg{topic="t", clientId="a"} 1\nx_poll_idle_ratio_avg_max{client_id="a"} 0\n', 0.0),
        ("x_poll_idle_ratio_avg 0.25\nx_poll_idle_ratio_avg 0.5\n", None),
        ('x_poll_idle_ratio_avg{client_id="b"} 0.5\n', None),
        ('x_poll_idle_ratio_avg{note=",client_id=\\"a\\""} 0.5\nx_poll_idle_ratio_avg{client_id="b"} 0.5\n', None),
    ],
)
def test_whatever_rules_made_of_it(page: str, share: float | None) -> None:
    """The name's end and the client's label tell."""
    assert told(page, "a")[0].share == share


def test_members_with_one_client_id_on_one_page_are_unknown() -> None:
    """Java registers only one of them, so nobody knows whose the figure is."""
    found = told(MICROMETER, "consumer-shop-parse-1", "consumer-shop-parse-1")
    assert [each.share for each in found] == [None, None]
    assert "give each a client.id of its own" in found[0].problem


def java(url: str, broker: Broker) -> Followed:
    """Return a job of one group of Java clients, which show their pages there."""
    return Followed(broker, Chain("j", {"g": Group(metrics=f"{url}/{{number}}")}))


def page(number: int, idle: object) -> str:
    """Return the page of a member."""
    return f'kafka_consumer_poll_idle_ratio_avg{{client_id="c{number}"}} {idle}\n'


def test_a_group_whose_members_show_nothing_else_has_busy_time() -> None:
    """The mean of the last minute, times that minute; what they do not work they are idle."""
    pages: dict[str, str] = {}
    broker = Broker(ends=dict.fromkeys(ORDERS, 1_000))
    with showing(pages) as url:
        job = java(url, broker)
        shares = [(0.9, 0.5), (0.25, 0.5), (0.0, 1.0)]
        for minute, idle in enumerate(shares):
            pages.update({f"/{number}": page(number, each) for number, each in enumerate(idle)})
            broker.group(dict.fromkeys(ORDERS, 50 * minute), ORDERS[:2], ORDERS[2:])
            job.look()
    assert job.now is not None
    assert [each.busy_ms for each in job.now.samples] == [105_000, 30_000]
    assert [each.idle_ms for each in job.now.samples] == [15_000, 90_000]
    assert job.grown("busy_ms") == MINUTE_MS


@pytest.mark.parametrize("away", [None, page(1, "NaN")], ids=["missing", "NaN"])
def test_a_member_that_does_not_tell_makes_the_minute_unknown(away: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Of its task, for as long as it does not; the others go on, and one line names it."""
    pages: dict[str, str] = {"/0": page(0, 0.5)}
    broker = Broker(ends=dict.fromkeys(ORDERS, 1_000))
    with showing(pages) as url:
        job = java(url, broker)
        for minute in range(5):
            pages["/1"] = page(1, 0.5)
            if minute == 2:
                pages.pop("/1") if away is None else pages.update({"/1": away})
            broker.group(dict.fromkeys(ORDERS, 50 * minute), ORDERS[:2], ORDERS[2:])
            job.look()
            if minute == 2:
                assert job.now is not None
                assert [each.busy_ms for each in job.now.samples] == [60_000, None]
                assert job.now.samples[1].idle_ms is None
    assert job.grown("busy_ms") == MINUTE_MS
    said = [record.getMessage() for record in caplog.records if "busy time" in record.getMessage()]
    assert len(said) == 1
    assert "(member c1)" in said[0]


def test_a_mean_of_a_minute_says_nothing_of_five() -> None:
    """After looks that failed, the span since the last one is not covered."""
    pages = {"/0": page(0, 0.5)}
    broker = Broker(ends=dict.fromkeys(ORDERS, 1_000))
    with showing(pages) as url:
        job = java(url, broker)
        for minutes in (0, 0, 5, 0, 0):
            broker.minute += minutes
            broker.group(dict.fromkeys(ORDERS, 50 * broker.minute), ORDERS)
            job.look()
            if minutes:
                assert job.now is not None
                assert job.now.samples[0].busy_ms is None
    assert job.grown("busy_ms") == MINUTE_MS / 2


def test_a_member_that_joins_is_counted_from_then_on() -> None:
    """All begin anew, as with a counter."""
    pages = {f"/{number}": page(number, 0.5) for number in range(2)}
    broker = Broker(ends=dict.fromkeys(ORDERS, 1_000))
    with showing(pages) as url:
        job = java(url, broker)
        for minute in range(4):
            broker.group(dict.fromkeys(ORDERS, 50 * minute), *([ORDERS] if minute < 2 else [ORDERS[:2], ORDERS[2:]]))
            job.look()
    assert job.now is not None
    assert [each.busy_ms for each in job.now.samples] == [60_000, 60_000]
    assert [each.idle_ms for each in job.now.samples] == [60_000, 60_000]
