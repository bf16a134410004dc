"""The page in a real browser, on a recorded demo that the real projector puts into a real Redis.

``SURESCALE_PAGE_FIGURES=yes`` writes the screenshots to docs/figures (`make page-figures`).
"""

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.decisions import Candidates, Decision, LoadOutlook
from surescale.contracts.job_settings import JobSettings, Pause
from surescale.contracts.messages import ClusterTopology, ConsumerGroup, GroupMember, GroupPartition, GroupWorker, JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    CLUSTER_TOPOLOGY,
    DECISIONS,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    POLICY_RELEASES,
    SHADOW_DECISIONS,
    SNAPSHOTS,
)
from surescale.contracts.wire import decode, encode
from surescale.engines.flink.answers import Overview
from surescale.engines.flink.capabilities import capabilities_of
from surescale.engines.processes import PROCESSES
from surescale.runtime.kafka import create_topics
from surescale.runtime.topic_records import append_ms, parsed, read_topics, value_of
from surescale.services.state.access import Tokens
from surescale.services.state.operate import Operator
from surescale.services.state.write.operations import Remember
from surescale.services.state.write.projections import Record, project
from tests.conftest import KafkaForTests
from tests.support.browsed_page import keep, settled, violations
from tests.support.builders import JOB
from tests.support.served_page import Served, View, recorded, serving
from tests.support.stopped_roles import Stopped
from tests.support.view_pipeline import send
from tests.wire.messages import MESSAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.integration
BUSIEST, OTHER = "sim/j_3803524", "sim/j_1351665"
WIDTHS = (360, 820, 1360)  # a phone, a tablet, a desk
ACT = f"{BUSIEST}@810545400000/sure"
PAGES = {
    "jobs": "#/",
    "job": f"#/jobs/{BUSIEST}",
    "decision": f"#/decisions/{quote(ACT, safe='')}",
    "clusters": "#/clusters",
    "cluster": "#/clusters/sim",
    "policies": "#/policies",
    "pipeline": "#/pipeline",
}
DARK = {name: PAGES[name] for name in ("job", "decision")}
SHOWN = {
    "jobs": ["2 jobs", BUSIEST, OTHER, "Latest changes"],
    "job": ["Task graph", "Available", "J44_1_43", "Last hours"],
    "decision": ["176 → 88 subtasks, 44 tasks changed", "84 learners", "commanded: commit", "What it looked at", "m2"],
    "clusters": ["simulated"],
    "cluster": ["5 of 8 units in use", "host lost", "cheaper hosts"],
    "policies": ["sure", OTHER, "Nothing released"],
    "pipeline": ["rescaler", "300 records: windows", "Refused records"],
}


@pytest.fixture(scope="module")
def pipeline() -> list[Record]:
    """The records of the demo."""
    return recorded()


@pytest.fixture
def served(page: "Page", view: View) -> Iterator[Served]:
    """The API over that view."""
    with serving(page, view) as made:
        yield made


def test_every_page_shows_the_demo_in_light_and_dark(
    browser: "Browser", page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """What matters is there, axe finds nothing, the console is empty, and nothing outside is asked for."""
    view.take(pipeline)
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for name, address in PAGES.items() if theme == "light" else DARK.items():
            page.goto(served.url + address)
            settled(page)
            for words in SHOWN[name]:
                page.get_by_text(words).filter(visible=True).first.wait_for()
            if name in ("job", "decision"):
                page.locator(".graph svg").wait_for()
            assert violations(page) == [], (name, theme)
            keep(page, f"page-{name}{'-dark' if theme == 'dark' else ''}.png")
    assert {url for url in asked if not url.startswith((served.url, "data:"))} == set()


def test_on_a_phone_nothing_is_cut_and_the_latest_changes_are_there(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """No page is wider than the screen, jobs have all their figures in sight, and changes need no line that was scrolled to."""
    view.take(pipeline)
    page.set_viewport_size({"width": 360, "height": 800})
    for name, address in PAGES.items():
        page.goto(served.url + address)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360, name
        assert violations(page) == [], name
        names = page.locator("main th[scope=row]").evaluate_all("rows => rows.map(row => row.getBoundingClientRect().width)")
        assert min(names, default=100) >= 100, (name, names)  # else a name takes a line for each few letters
    page.goto(served.url)
    lately = page.get_by_role("region", name="Latest changes")
    lately.get_by_role("link", name="subtasks").first.wait_for()
    assert lately.get_by_text("acted").count() > 0
    for figure in page.get_by_role("row").filter(has_text=BUSIEST).locator("td").all():
        box = figure.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 360
    row = page.get_by_role("row").filter(has_text=BUSIEST)
    line = row.locator(".sparkline svg").bounding_box()
    assert line is not None
    assert line["x"] + line["width"] <= 360
    for figure in row.locator("td.number").all():
        box = figure.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= line["y"] or line["y"] + line["height"] <= box["y"], "the line lies on a figure"


def test_minutes_that_are_missing_stay_missing_in_every_line(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """Neither the chart of a job nor its line in the list joins what stands on both sides; both say so."""
    windows = [each for each in pipeline if each.topic == SNAPSHOTS and each.key == BUSIEST.encode()]
    lost = {each.offset for each in windows[len(windows) // 2 :][:20]}
    view.take(each for each in pipeline if each not in windows or each.offset not in lost)
    page.goto(served.url)
    line = page.get_by_role("row").filter(has_text=BUSIEST).locator(".spark-load")
    line.wait_for(state="attached")
    assert (line.get_attribute("d") or "").count("Z") == 2
    page.goto(f"{served.url}#/jobs/{BUSIEST}")
    settled(page)
    label = page.locator('figure.chart[aria-label^="Load,"]').get_attribute("aria-label") or ""
    assert "not known of all minutes" in label
    assert violations(page) == []


def test_a_young_jobs_line_is_as_short_as_its_life(page: "Page", served: Served, view: View, pipeline: list[Record]) -> None:
    """Five minutes take a twenty-fourth of the two hours that the column shows."""
    windows = [each for each in pipeline if each.topic == SNAPSHOTS and each.key == BUSIEST.encode()]
    early = {each.offset for each in windows[:-5]}
    view.take(each for each in pipeline if each not in windows or each.offset not in early)
    page.goto(served.url)
    line = page.get_by_role("row").filter(has_text=BUSIEST).locator(".spark-size")
    line.wait_for(state="attached")
    first = float((line.get_attribute("d") or "").removeprefix("M").split()[0])
    width = float(line.locator("xpath=..").get_attribute("width") or 0)
    assert width * 0.95 < first < width


def test_a_row_of_jobs_and_a_box_of_the_graph_lead_to_their_pages(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """Not only the name in it; the rows of tasks too."""
    view.take(pipeline)
    page.goto(served.url)
    page.get_by_role("row").filter(has_text=BUSIEST).locator("td").nth(1).click()
    page.get_by_role("heading", name=BUSIEST, level=1).wait_for()
    page.locator(".graph svg .task").first.click()
    page.get_by_role("link", name=BUSIEST).click()
    page.get_by_role("heading", name=BUSIEST, level=1).wait_for()
    page.get_by_role("region", name="Tasks, busiest first").locator("tbody td").first.click()
    page.get_by_role("heading", name="Last hours").wait_for()
    assert "#/tasks/" in page.url


def test_a_job_that_has_ended_is_not_counted_with_those_at_work(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """It is still there for a day, and last."""

    def ended(record: Record) -> Record:
        if record.topic != JOB_TOPOLOGY or record.key != OTHER.encode():
            return record
        return dataclasses.replace(record, value=encode(replace(decode(record.value, JobTopology), state="finished")))

    view.take(map(ended, pipeline))
    page.goto(served.url)
    page.get_by_text("1 job, 1 ended").wait_for()


def test_a_task_has_a_page_with_its_last_hours(page: "Page", served: Served, view: View, pipeline: list[Record]) -> None:
    """Reached from its job; as much of it as is asked for; one that there is not is named, with what there is."""
    view.take(pipeline)
    page.goto(f"{served.url}#/jobs/{BUSIEST}")
    settled(page)
    page.locator('figure.chart[aria-label^="Load,"][aria-label*=", capacity "]').wait_for()  # as its busiest task allows
    task = page.get_by_role("region", name="Tasks, busiest first").locator("th a").first
    name = task.inner_text()
    task.click()
    page.get_by_role("heading", name=name, exact=True).wait_for()
    settled(page)
    assert [each.get_attribute("aria-label").split(",")[0] for each in page.locator("figure.chart").all()] == [  # type: ignore[union-attr]
        "Size", "Load", "Busy", "Backlog", "Latency",
    ]  # fmt: skip
    assert "at most" in (page.locator("figure.chart").first.get_attribute("aria-label") or "")
    assert "capacity" in (page.locator("figure.chart").nth(1).get_attribute("aria-label") or "")
    choice, time = page.get_by_label("Show the last").bounding_box(), page.locator(".charts-at").bounding_box()
    assert choice is not None
    assert time is not None
    assert choice["y"] + choice["height"] <= time["y"], "the time lies on the choice of range"
    assert violations(page) == []
    with page.expect_request(lambda request: request.url.endswith(f"/tasks/{quote(name, safe='')}?minutes=30")):
        page.get_by_label("Show the last").select_option("30 minutes")
    page.set_viewport_size({"width": 360, "height": 800})
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.expected_errors = 1  # type: ignore[attr-defined]  # the browser itself logs the 404
    page.goto(f"{served.url}#/tasks/{quote(BUSIEST, safe='')}/nothing")
    page.get_by_text("no task 'nothing' is known").wait_for()


def test_a_hold_shows_how_busy_its_tasks_were(page: "Page", served: Served, view: View, pipeline: list[Record]) -> None:
    """Without a click: the busiest tasks, what waited for them, the least that the load needs, and the unit of the score."""
    recorded_hold = next(
        each for each in map(_decision, pipeline) if each is not None and (each.job, each.action) == (OTHER, "hold")
    )
    tasks = tuple(replace(task, utilisation=at / 100, waiting_records=9.0) for at, task in enumerate(recorded_hold.tasks))
    hold = replace(recorded_hold, tasks=tasks)
    view.take(dataclasses.replace(each, value=encode(hold)) if _decision(each) == recorded_hold else each for each in pipeline)
    page.goto(f"{served.url}#/decisions/{quote(hold.decision_id, safe='')}")
    settled(page)
    sizes = page.get_by_role("region", name="Sizes of the tasks")
    heads = [head.split("\n")[0] for head in sizes.locator("thead th").all_inner_texts()]
    first = dict(zip(heads[1:], sizes.locator("tbody tr").first.locator("td").all_inner_texts(), strict=True))
    assert first["Busy"].split(" to ")[-1] == f"{len(tasks) - 1} %"
    assert (first["Waiting"], first["Size"]) == ("9", str(tasks[-1].current))
    page.get_by_role("button", name="more tasks without a change").click()
    page.get_by_role("button", name="without a change").wait_for(state="detached")


def test_policies_in_the_shadow_and_releases_to_some_jobs_are_shown(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """Agreement, cost and problems of each; whom a release is for. In both themes, and without a fault that axe finds."""
    kinds = {
        SHADOW_DECISIONS: ("shadow-decision", "shadow-decision-late"),
        POLICY_RELEASES: ("policy-release", "policy-release-canary"),
    }
    values = [(topic, encode(MESSAGES[name])) for topic, names in kinds.items() for name in names]
    view.take([*pipeline, *(Record(topic, 0, 10_000 + at, b"sim", value, 9) for at, (topic, value) in enumerate(values))])
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.goto(served.url + PAGES["policies"])
        settled(page)
        shadows = page.get_by_role("region", name="Shadow policies compared with the decisions").get_by_role("row")
        cells = shadows.nth(1).inner_text().split("\t")[:7]
        assert cells == ["ds2", "sure on sim/clicks", "1", "0 %", "0 %", "+1", "+$54.38"]
        assert "0 of 1" in shadows.nth(2).inner_text()
        releases = page.get_by_role("region", name="Releases by scope").get_by_role("row")
        assert [row.split("\t")[0] for row in releases.all_inner_texts()[1:]] == ["10 % of the jobs of sim", "sim"]
        assert violations(page) == [], theme


def test_a_decision_is_followed_from_the_overview_to_what_it_looked_at(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """Overview, job, decision, heat map; then back by the crumbs. With the keyboard alone where it counts."""
    view.take(pipeline)
    page.goto(served.url)
    page.get_by_role("link", name=BUSIEST, exact=True).first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=BUSIEST, level=1).wait_for()
    page.get_by_role("list", name="Latest decisions, newest first").get_by_role("link").first.click()
    page.get_by_role("heading", name="96 → 103 subtasks").wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H1"
    heat = page.locator("table.heatmap")
    heat.wait_for()
    assert heat.locator("thead th").count() > 3 + 1  # of an act more than three minutes are kept
    assert heat.locator("td.cell").count() > 8
    page.get_by_role("navigation", name="Where this is").get_by_role("link", name=BUSIEST).click()
    page.get_by_role("heading", name=BUSIEST, level=1).wait_for()


def test_new_minutes_appear_by_themselves_also_after_the_service_was_away(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """No reload: the stream says that there is more, and a lost one is taken up again."""
    ends = {id(each): _window_end(each) for each in pipeline if each.topic == SNAPSHOTS}
    last = max(ends.values())
    before = [each for each in pipeline if ends.get(id(each), 0) < last - 60_000]
    middle = [each for each in pipeline if ends.get(id(each), 0) == last - 60_000]
    newest = [each for each in pipeline if ends.get(id(each), 0) == last]
    view.take(before)
    page.goto(served.url)
    page.get_by_text("event time 1995-09-08 09:28 UTC").wait_for()
    view.take(middle)
    page.get_by_text("event time 1995-09-08 09:29 UTC").wait_for()
    page.expected_errors = 100  # type: ignore[attr-defined]  # the browser itself logs each request that nobody answers
    served.go_away()
    page.get_by_text("connection lost").wait_for()
    page.locator(".banner").get_by_text("The state service does not answer").wait_for()
    view.take(newest)
    served.start()
    page.get_by_text("event time 1995-09-08 09:30 UTC").wait_for()
    page.get_by_text("live", exact=True).wait_for()
    assert page.locator(".banner").count() == 0


@pytest.mark.parametrize(
    ("stopped", "role", "words"),
    [
        (Stopped(monitor=25, spark=25, agent=25, rescaler=25), "monitor", "no figures for 2"),
        (Stopped(agent=25), "agent", "no decision for "),
        (Stopped(rescaler=25), "rescaler", "no answer for "),
    ],
    ids=["all", "agent", "rescaler"],
)
def test_a_role_that_has_stopped_is_told_on_every_page(
    page: "Page", served: Served, view: View, stopped: Stopped, role: str, words: str
) -> None:
    """On top, at the role's card and in place of the job's word; the dot is not green."""
    view.take(stopped.records())
    for address in ("#/", f"#/jobs/{JOB}", "#/clusters", "#/policies", "#/pipeline"):
        page.goto(served.url + address)
        page.locator(".banner").get_by_text(f"sim: {words}").wait_for()
        page.get_by_text("old figures").wait_for()
        assert page.locator(".connection-live, .status-fine").count() == 0
        assert violations(page) == []
    page.locator(".stage-bad").filter(has_text=role).get_by_text(words).wait_for()
    page.locator(".stage").filter(has_text="monitor").get_by_text("shop-1:77 watches sim").wait_for()
    page.goto(f"{served.url}#/")
    page.locator(".status").get_by_text(words).wait_for()


def test_a_jobs_page_says_when_the_next_decision_is_due(page: "Page", served: Served, view: View) -> None:
    """While its figures are fresh; above its latest decisions."""
    view.take(Stopped().records())
    page.goto(f"{served.url}#/jobs/{JOB}")
    page.get_by_text("Next decision: due at").wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="hold").or_(page.get_by_role("link", name="act")).first.click()
    page.locator("dl.facts div").filter(has_text="Next decision").get_by_text("due at").wait_for()


def test_a_consumer_groups_page_shows_its_partitions_members_and_workers(page: "Page", served: Served, view: View) -> None:
    """What waits most stands first, what is unknown says so, and no host is asked for."""
    view.take(_group())
    page.goto(f"{served.url}#/jobs/{JOB}")
    page.locator('figure.chart[aria-label^="Load,"][aria-label*="capacity 1,800"]').wait_for()  # 600 taken, a third busy
    page.get_by_text("1,580 records waiting, the oldest for 4.2 s. What waits in 1 partition is unknown.").wait_for()
    rows = page.get_by_role("region", name="Partitions of orders-parse").locator("tbody tr")
    assert [rows.nth(number).locator("td").nth(3).inner_text() for number in range(2)] == ["unknown", "1,501"]
    assert rows.count() == 12
    page.get_by_role("button", name="8 more partitions").click()
    assert rows.count() == 20
    page.get_by_text("900 partitions in which less waits, not kept.").wait_for()
    page.get_by_text("ended after 1 s with exit code 2").wait_for()
    assert violations(page) == []


@pytest.mark.parametrize("kind", ["demo", "flink", "group"])
def test_at_three_widths_each_kind_of_job_shows_what_it_has_and_nothing_is_cut(
    page: "Page", served: Served, view: View, pipeline: list[Record], kind: str
) -> None:
    """No page is wider than the screen; hosts, cost, moves, partitions and workers are shown of engines that have them."""
    records = {"demo": lambda: pipeline, "flink": _on_flink, "group": _group}[kind]()
    view.take(records)
    job = BUSIEST if kind == "demo" else JOB
    decision = ACT if kind == "demo" else next(each.decision_id for each in map(_decision, records) if each is not None)
    task = "J44_1_43" if kind == "demo" else "map"
    shown = {
        "Cost a day": kind == "demo",
        "Cost, a day": kind == "demo",
        "Oldest record": kind == "group",
        "Partitions of orders-parse": kind == "group",
        "Task graph": True,
    }
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 860})
        for address, simulated in (
            ("#/", ("Cost",)),
            ("#/clusters", ("Hosts", "Units", "Cost a day")),
            ("#/clusters/sim", ("Hosts", "Cost a day", "Moves", "No host")),
            ("#/policies", ()),
            ("#/pipeline", ("engine", "clock")),
            (f"#/tasks/{quote(job, safe='')}/{task}", ()),
            (f"#/decisions/{quote(decision, safe='')}", ()),
            (f"#/jobs/{job}", ()),
        ):
            page.goto(served.url + address)
            settled(page)
            text = page.locator("main").inner_text()
            expected = {words for words in simulated if kind == "demo" and words != "No host"}
            assert {words for words in simulated if words in text} == expected, (width, address)
            for word in page.locator("main .status").all():
                box = word.bounding_box()
                assert box is not None
                assert box["x"] + box["width"] <= width - 10, (width, address)
            assert page.evaluate("document.documentElement.scrollWidth") == width, (width, address)
            assert violations(page) == [], (width, address)
        page.locator(".graph svg").wait_for()
        assert page.evaluate("document.querySelector('.graph svg').getBoundingClientRect().right") <= width
        assert {words: page.get_by_text(words).or_(page.get_by_label(words)).count() > 0 for words in shown} == shown, width
        names = page.get_by_role("region", name="Tasks").locator("tbody th")
        assert names.count() > 0
        for at in range(names.count()):
            box = names.nth(at).bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width, (width, at)


def _on_flink() -> list[Record]:
    overview = Overview(flink_version="2.3.0", taskmanagers=1, slots_total=4, slots_available=1)
    return _of_engine(capabilities_of(overview, {"jobmanager.scheduler": "adaptive"}), ())


def _group() -> list[Record]:
    group = ConsumerGroup(
        task="map",
        group="orders-parse",
        state="stable",
        assignor="range",
        topics=("orders",),
        lag=1_580,
        lag_unknown=1,
        oldest_ms=4_200,
        partitions=tuple(_partition(number, None if number == 3 else 79 * number) for number in range(20)),
        partitions_left_out=900,
        members=(GroupMember(subtask=0, client_id="python-1", host="10.0.0.7", partitions=20, lag=None, read_per_minute=None),),
        workers=(GroupWorker(index=0, pid=None, started_ms=None, failures=3, failure="ended after 1 s with exit code 2"),),
    )
    return _of_engine(PROCESSES, (group,))


def _of_engine(engine: Capabilities, groups: tuple[ConsumerGroup, ...]) -> list[Record]:
    """Return the records of a pipeline at work, with its job on an engine."""
    return [dataclasses.replace(each, value=_on(engine, groups, each)) for each in Stopped().records()]


def _on(engine: Capabilities, groups: tuple[ConsumerGroup, ...], record: Record) -> bytes | None:
    if record.topic == JOB_TOPOLOGY:
        return encode(replace(decode(record.value, JobTopology), engine=engine.engine, groups=groups))
    if record.topic == CLUSTER_TOPOLOGY:
        return encode(replace(decode(record.value, ClusterTopology), engine=engine))
    return record.value


def _partition(number: int, lag: int | None) -> GroupPartition:
    return GroupPartition(
        topic="orders",
        partition=number,
        subtask=0,
        end=10_000,
        committed=None if lag is None else 10_000 - lag,
        lag=lag,
        problem="" if lag is not None else "nothing was ever committed there",
        arrived_per_minute=None,
        read_per_minute=None,
        stands_since_ms=None,
    )


def test_the_load_that_the_newest_decision_expects_is_shown_ahead_of_now(
    page: "Page", served: Served, view: View, pipeline: list[Record]
) -> None:
    """A band after the newest minute, told to a screen reader as well; hovering it says what is expected until when."""
    outlook = LoadOutlook(stage_minutes=20, means=(180.0, 210.0, 240.0), spread=(0.1, 0.15, 0.2))
    view.take(_looking_ahead(record, outlook) if record.topic == DECISIONS else record for record in pipeline)
    page.goto(f"{served.url}{PAGES['job']}")
    settled(page)
    load = page.locator('figure.chart[aria-label^="Load,"]')
    assert "expected from 180 to 240 until 10:30" in str(load.get_attribute("aria-label"))
    box = load.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
    expect = page.locator(".charts-at")
    expect.filter(has_text="until 10:30: 240 records a minute expected, 196 to 293").wait_for()


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ((), "dollars depend on the hosts, which are chosen after the decision"),
        ((40, 80), "at $0.50 each a day, the price of now"),
    ],
    ids=["subtasks", "dollars"],
)
def test_the_sizes_that_were_compared_are_a_curve_of_rent_against_late_minutes(
    page: "Page", served: Served, view: View, pipeline: list[Record], slots: tuple[int, ...], words: str
) -> None:
    """With the present and the chosen one marked; in dollars where slots have a price, and else it says what stands for them."""
    act = next(each for each in map(_decision, pipeline) if each is not None and each.decision_id == ACT)
    assert act.compared is not None
    chosen = act.compared.present_subtasks + sum(task.desired - task.current for task in act.tasks)
    sizes = (chosen, act.compared.present_subtasks)
    curve = Candidates(subtasks=sizes, late_minutes=(0.4, 0.0), minutes=120, late_seconds=60.0, slots=slots)
    compared = replace(act, compared=replace(act.compared, candidates=curve))

    def taken(record: Record) -> Record:
        if _decision(record) == act:
            return dataclasses.replace(record, value=encode(compared))
        if record.topic != CLUSTER_TOPOLOGY or not slots:
            return record
        cluster = decode(record.value, ClusterTopology)
        priced = replace(cluster, hosts=(), engine=replace(cluster.engine, places="itself"), worker_price_per_s=0.5 / 86_400)
        return dataclasses.replace(record, value=encode(priced))

    view.take(map(taken, pipeline))
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{served.url}{PAGES['decision']}")
    settled(page)
    card = page.locator("section.card").filter(has=page.get_by_role("heading", name="Sizes that were compared"))
    card.get_by_text(words).wait_for()
    label = str(card.get_by_role("img").get_attribute("aria-label"))
    assert f"present {sizes[1]} subtasks, 0.0 late minutes; chosen {chosen} subtasks, 0.4 late minutes." in label
    rows = [row.inner_text().split() for row in card.locator("tbody tr").all()]
    assert [row[0] for row in rows] == [str(size) for size in sizes]
    assert ("$20.00" in rows[0], "−50" in rows[0], "chosen" in rows[0], "present" in rows[1]) == (bool(slots), True, True, True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert violations(page) == []


def _decision(record: Record) -> Decision | None:
    return decode(record.value, Decision) if record.topic == DECISIONS else None


def _looking_ahead(record: Record, outlook: LoadOutlook) -> Record:
    decision = decode(record.value, Decision)
    return dataclasses.replace(record, value=encode(replace(decision, outlook=outlook)))


def _window_end(record: Record) -> int:
    return next(each.score for each in project(record) if isinstance(each, Remember))


def test_what_is_not_there_is_said_with_what_there_is(page: "Page", served: Served, view: View, pipeline: list[Record]) -> None:
    """Nothing at all; then a job, a cluster and a page of a wrong name."""
    page.goto(served.url)
    page.get_by_text("No job yet").wait_for()
    view.take(pipeline)
    page.expected_errors = 100  # type: ignore[attr-defined]  # the browser itself logs each 404
    page.goto(f"{served.url}#/jobs/sim/j_3803525")
    page.get_by_role("alert").get_by_role("link", name=BUSIEST).wait_for()
    page.goto(f"{served.url}#/clusters/sym")
    page.get_by_role("alert").get_by_role("link", name="sim").wait_for()
    page.goto(f"{served.url}#/nowhere")
    page.get_by_role("heading", name="There is no such page").wait_for()


def test_a_token_is_asked_for_and_used(page: "Page", view: View, pipeline: list[Record], tmp_path: Path) -> None:
    """The page itself is open; its data are not."""
    (tmp_path / "tokens").write_text("a-token-of-sixteen-or-more\n")
    view.take(pipeline)
    with serving(page, view, Tokens(str(tmp_path / "tokens"))) as served:
        page.expected_errors = 100  # type: ignore[attr-defined]  # the browser itself logs each 401
        page.goto(served.url)
        page.get_by_label("Token").fill("a-token-of-sixteen-or-more")
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("2 jobs").wait_for()
        page.get_by_text("live", exact=True).wait_for()


def test_a_refusal_from_before_the_token_does_not_ask_for_it_again(
    page: "Page", view: View, pipeline: list[Record], tmp_path: Path
) -> None:
    """The stream was asked for without a token, and its refusal comes late: the stream is asked for again with it."""
    (tmp_path / "tokens").write_text("a-token-of-sixteen-or-more\n")
    view.take(pipeline)
    held: list[Route] = []

    def hold_the_first(route: "Route") -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    with serving(page, view, Tokens(str(tmp_path / "tokens"))) as served:
        page.expected_errors = 100  # type: ignore[attr-defined]  # the browser itself logs each 401
        page.route("**/events", hold_the_first)
        page.goto(served.url)
        page.get_by_label("Token").fill("a-token-of-sixteen-or-more")
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("2 jobs").wait_for()
        held[0].fulfill(status=401, json={"error": "no token"})
        page.get_by_text("live", exact=True).wait_for()
        assert page.get_by_text("2 jobs").is_visible()
        assert page.get_by_label("Token").count() == 0


def test_who_may_operate_pauses_and_resumes_on_the_page_and_nobody_else_sees_buttons(
    page: "Page", view: View, pipeline: list[Record], kafka: KafkaForTests, tmp_path: Path
) -> None:
    """Over a real Kafka: the record is written once, by the token's name, and the page shows what is in force."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    topology = next(each for each in reversed(pipeline) if each.topic == JOB_TOPOLOGY and each.key == BUSIEST.encode())
    send(settings, (JOB_TOPOLOGY, BUSIEST, topology.value))
    (tmp_path / "operate").write_text("ana a-token-of-sixteen-or-more\n")
    view.take(pipeline)
    execute = Operator(settings, logging.getLogger("test")).execute

    def project_settings() -> list[JobSettings]:
        records = read_topics(settings, [JOB_SETTINGS])[JOB_SETTINGS]
        key = BUSIEST.encode()
        view.take(Record(JOB_SETTINGS, 0, int(each.offset() or 0), key, value_of(each), append_ms(each)) for each in records)
        return parsed(records, JobSettings)

    with serving(page, view, Tokens("", str(tmp_path / "operate")), execute=execute) as served:
        page.goto(f"{served.url}{PAGES['job']}")
        page.get_by_role("heading", name="Task graph").wait_for()
        assert page.get_by_role("button", name="Pause").count() == 0
        page.get_by_role("button", name="Sign in to operate").click()
        page.get_by_label("Token").fill("a-token-of-sixteen-or-more")
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("as ana").wait_for()
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_label("Rescaling").select_option("up")
        page.get_by_label("Why").fill("release day")
        assert violations(page) == []
        page.get_by_role("button", name="Pause now").click()
        page.get_by_text(f"Now in force: scaling up of {BUSIEST} is paused by ana").wait_for()
        (paused,) = project_settings()
        assert isinstance(paused.pause, Pause)
        assert (paused.pause.by, paused.pause.why, paused.pause.direction) == ("ana", "release day", "up")
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("Nothing is paused.").wait_for()
        assert [each.pause is None for each in project_settings()] == [False, True]
        page.get_by_role("button", name="Resume").wait_for(state="detached")
        assert page.get_by_role("button", name="Approve the advice").count() == 0
