"""ScaledStreams without Kafka and Kubernetes: their definition, what they make of settings, what they show."""

import logging
import threading
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand, TaskChange
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import SETTINGS, JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.releases import Releases
from surescale.engines.kubernetes.answers import ObjectMeta
from surescale.services.job_settings.changes import Recorded
from surescale.services.job_settings.files import Plan
from surescale.services.job_settings.snapshot import KnownJobs
from surescale.services.state.documents import JobDocument
from surescale.services.state.read.staleness import NextDecision
from surescale.services.state.record_documents import CommandDocument, DecisionDocument
from surescale.services.state.scaled_streams import controller
from surescale.services.state.scaled_streams.definition import ScaledStream, definition
from surescale.services.state.scaled_streams.plan import NAME_MAX, plans_of
from surescale.services.state.scaled_streams.status import MESSAGE_MAX, Verdict, event_of, happenings, status_of
from surescale.services.state.settings import StateSettings
from tests.support.view_documents import appended
from tests.support.view_pipeline import decision

COMPOSE = Path(__file__).parents[4] / "compose"
JOB = "sim/clicks"
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def stream(name: str = "clicks", job: str = JOB, *, created: str = NOW, namespace: str = "shop", **settings: Any) -> ScaledStream:
    """Return a resource."""
    about = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", generation=1, creation_timestamp=created)
    return ScaledStream(about, {"job": job, **settings})


def known(*records: JobSettings) -> KnownJobs:
    """Return what Kafka knows: two jobs, and these records in their order."""
    history: dict[str, tuple[Recorded, ...]] = {}
    for each in records:
        history[each.job] = (*history.get(each.job, ()), Recorded(each, append_ms=1))
    tasks = (TaskSpec(task="map", max_parallelism=64),)
    topologies = {job: JobTopology(job=job, version=1, at_ms=0, tasks=tasks) for job in (JOB, "sim/views")}
    return KnownJobs(topologies, {}, history, Releases([]), now_ms=60_000)


def planned(*streams: ScaledStream, after: tuple[JobSettings, ...] = ()) -> tuple[dict[str, Verdict], list[Plan]]:
    """Return what becomes of resources of the namespace shop, by name, and what is written."""
    verdicts, changes = plans_of(streams, known(*after), ["shop"], ("sure", "hold"))
    return {uid.removeprefix("uid-"): verdict for uid, verdict in verdicts.items()}, changes


def written(*streams: ScaledStream, after: tuple[JobSettings, ...] = ()) -> tuple[JobSettings, ...]:
    """Return the records of settings once these resources have been looked at."""
    return (*after, *(plan.after for plan in planned(*streams, after=after)[1]))


@pytest.mark.parametrize("path", ["kubernetes/scaling/scaled-streams/definition.yaml", "helm/surescale/crds/scaledstreams.yaml"])
def test_the_shipped_definition_is_that_of_the_code(path: str) -> None:
    """`make chart` writes it."""
    assert yaml.safe_load((COMPOSE / path).read_text()) == definition()


def test_the_definition_has_each_setting_by_the_name_of_its_option() -> None:
    """So a misspelt one is refused by `kubectl apply`, and numbers out of their range too."""
    (version,) = definition()["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert fields.keys() == {"job", *(setting.option for setting in SETTINGS.values())}
    assert {name: fields["max"][name] for name in ("type", "minimum")} == {"type": "integer", "minimum": 1}
    assert {name: fields["step-up"][name] for name in ("type", "minimum", "exclusiveMinimum")} == {
        "type": "number",
        "minimum": 1.0,
        "exclusiveMinimum": True,
    }
    assert fields["mode"]["enum"] == ["act", "advise", "observe"]
    assert (fields["align"]["type"], fields["emergency"]["enum"]) == ("boolean", ["grow", "wait"])
    assert fields["exclude"]["items"] == {"type": "string"}
    assert all("description" in each for each in fields.values())


def test_a_resource_sets_its_job_and_owns_it() -> None:
    """What it leaves out is left to label and engine; looked at again, it writes nothing."""
    given = stream(mode="act", max=12, exclude=["mon-fri 09:00-17:30 Europe/Berlin"], align=False)
    verdicts, (plan,) = planned(given, after=(JobSettings(job=JOB, version=3, priority=9, set_by="bob"),))
    assert verdicts["clicks"] == Verdict(True, "Set", "settings version 4")
    assert (plan.after.mode, plan.after.parallelism_max, plan.after.align, plan.after.priority) == ("act", 12, False, None)
    assert (plan.after.set_by, plan.after.applied_from) == ("scaledstreams/shop/clicks", "scaledstreams/shop/clicks")
    assert planned(given, after=written(given))[1] == []


def test_what_somebody_changed_by_hand_is_taken_back_and_said() -> None:
    """By whom, too."""
    given = stream(max=12)
    records = written(given)
    by_hand = JobSettings(job=JOB, version=records[-1].version + 1, parallelism_max=3, set_by="bob")
    verdicts, (plan,) = planned(given, after=(*records, by_hand))
    assert plan.after.parallelism_max == 12
    assert "bob had changed by hand, and it was taken back: max 12 -> 3" in verdicts["clicks"].message


@pytest.mark.parametrize("given", [{"exclude": ["x"] * 100_000}, {"priority": "9" * 100_000}, {"policy": "a\n" * 50_000}])
def test_a_refusal_does_not_repeat_a_resource_of_any_size(given: dict[str, Any]) -> None:
    """With as much again in its status, the API server would keep none of it."""
    verdict = planned(stream(**given))[0]["clicks"]
    (held,) = status_of({}, 1, verdict, None, NOW)["conditions"]
    assert (held["reason"], "\n" in held["message"]) == ("Refused", False)
    assert len(held["message"]) <= MESSAGE_MAX


@pytest.mark.parametrize(
    "odd",
    [5, True, 1e308, "Set", {"type": "Set"}, [None], [5], [["type"]], [{}], [{"type": ["x"]}], [{"type": {}}], [{"type": None}]],
)
def test_conditions_that_somebody_else_wrote_end_nothing(odd: Any) -> None:
    """The definition lets a status have any fields, and whoever may write it may write these: ours take their place."""
    verdict = Verdict(True, "Set", "settings version 1")
    (held,) = status_of({"conditions": odd}, 1, verdict, None, NOW)["conditions"]
    assert (held["type"], held["status"], held["lastTransitionTime"]) == ("Set", "True", NOW)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (stream(maxx=3), "spec: there is no setting 'maxx'; did you mean max?"),
        (stream(min=9, max=3), "--min: 9 is more than --max 3"),
        (stream(exclude=["someday"]), "spec: exclude"),
        (stream(exclude=["2026-02-30.."]), "never comes: no calendar has the day 2026-02-30"),
        (stream(within=["mon 2026-12-25..2026-12-26: min 2"]), "never comes: no mon is among its days"),
        (stream(task=["mop=1..2"]), "there is no task 'mop'"),
        (stream(job="sim/*"), "a resource is for one job"),
        (stream(job=""), "a resource is for one job"),
        (stream(job="clicks"), "no name of a job"),
        (stream(policy="shure"), "spec.policy: there is no policy 'shure' in "),
        (stream(policy="shure"), "; there are sure, hold"),
        (stream(name="n" * (NAME_MAX + 1)), "give it at most 63"),
    ],
)
def test_a_resource_that_is_wrong_sets_nothing_and_says_why(given: ScaledStream, says: str) -> None:
    """In one line."""
    verdicts, changes = planned(given)
    (verdict,) = verdicts.values()
    assert (verdict.is_set, verdict.reason, changes) == (False, "Refused", [])
    assert says in verdict.message
    assert "\n" not in verdict.message


def test_a_policy_that_there_is_is_set() -> None:
    """By its name."""
    _, (plan,) = planned(stream(policy="hold"))
    assert plan.after.policy == "hold"


def test_one_that_became_wrong_leaves_what_it_had_set() -> None:
    """A slip of the pen does not put a job back to its engine's defaults."""
    records = written(stream(max=12))
    verdicts, changes = planned(stream(max=12, exclude=["someday"]), after=records)
    assert (verdicts["clicks"].is_set, changes) == (False, [])


def test_of_two_resources_for_one_job_the_older_one_holds() -> None:
    """Whatever their names; the younger one says which."""
    older, younger = stream("zebra", max=3, created=NOW), stream("ant", max=5, created=LATER)
    verdicts, (plan,) = planned(older, younger)
    assert (plan.after.parallelism_max, verdicts["zebra"].is_set, verdicts["ant"].is_set) == (3, True, False)
    assert verdicts["ant"].message == "sim/clicks is set by scaledstreams/shop/zebra, which is older; delete one of the two"


def test_a_job_that_files_set_stays_theirs() -> None:
    """Nothing is taken over in silence."""
    verdicts, changes = planned(stream(max=3), after=(JobSettings(job=JOB, version=1, applied_from="jobs.toml"),))
    assert (changes, verdicts["clicks"].message) == ([], f"spec.job: {JOB} is set by jobs.toml; take it out there first")


def test_a_resource_that_goes_leaves_its_job_and_another_one_takes_it() -> None:
    """At the next look; one of a namespace that was not looked at keeps its job."""
    before = written(stream(max=12), stream("views", "sim/views", max=4, namespace="pay"))
    successor = stream("successor", max=5)
    verdicts, (let_go,) = planned(successor, after=before)
    assert (verdicts["successor"].is_set, let_go.after.job, let_go.after.applied_from) == (False, JOB, "")
    assert let_go.after.parallelism_max is None
    verdicts, (taken,) = planned(successor, after=(*before, let_go.after))
    assert (verdicts["successor"].is_set, taken.after.parallelism_max) == (True, 5)


def test_a_condition_keeps_its_time_while_it_holds() -> None:
    """And gets a new one with its status."""
    first = status_of({}, 1, Verdict(True, "Set", "version 1"), None, NOW)
    again = status_of(first, 2, Verdict(True, "Set", "version 2"), None, LATER)
    other = status_of(first, 2, Verdict(False, "Refused", "max: no"), None, LATER)
    assert [each["conditions"][0]["lastTransitionTime"] for each in (first, again, other)] == [NOW, NOW, LATER]
    assert (other["conditions"][0]["status"], other["conditions"][0]["observedGeneration"]) == ("False", 2)
    assert (first["health"], first["subtasks"], first["decision"]) == (None, None, None)


@pytest.mark.parametrize(
    ("due", "words", "waits"),
    [
        (NextDecision(at_ms=600_000, minutes_missing=0, words="due at 00:10"), "due at 00:10", "the end of its span"),
        (
            NextDecision(at_ms=600_000, minutes_missing=1, words="due"),
            "due",
            "the end of its span, and 1 more minute of known figures",
        ),
        (None, "held up: no figures", "held up: no figures"),
        (None, "", None),
    ],
)
def test_the_status_says_when_the_next_decision_is_due_and_what_it_waits_for(
    due: NextDecision | None, words: str, waits: str | None
) -> None:
    """In words that stay the same from minute to minute while all is well: each change is a write."""
    shown = JobDocument(**(dict.fromkeys(JobDocument.__struct_fields__) | {"job": JOB, "conditions": (), "next_decision": due}))
    told = status_of({}, 1, Verdict(True, "Set", ""), msgspec.structs.replace(shown, next_in_words=words), NOW)
    assert told["nextDecision"] == ("1970-01-01T00:10:00Z" if due else None)
    assert told["nextDecisionWaitsFor"] == waits


def test_what_acts_led_to_and_how_commands_went_is_told_and_holds_are_not() -> None:
    """A refusal and a failure as warnings. The name of an event is that of what happened."""
    act = decision(2)
    said = Outcome(
        cluster="sim", job=act.job, decision_id=act.decision_id, span_end_ms=act.span_end_ms, status="refused",
        reason="paused", at_ms=1, detail="by ann",
    )  # fmt: skip
    command = RescheduleCommand(
        command_id=f"{act.job}#2.0", cluster="sim", job=act.job, desired_generation=2, step=0, base_placement_generation=0,
        decision_id=act.decision_id, gate_reason="desired", gate_cause="stabilized", issued_at_ms=1,
        changes=(TaskChange(task="map", before=2, after=3),),
    )  # fmt: skip
    report = Progress(
        cluster="sim", job=act.job, command_id=command.command_id, desired_generation=2, at_ms=1, status="failed", code="NO_ROOM",
        detail="x" * 2 * MESSAGE_MAX,
    )  # fmt: skip
    place = {"appended_ms": 0, "partition": 0, "offset": 0}
    told = list(
        happenings(
            [
                DecisionDocument(record=act, outcome=appended(said), **place),
                DecisionDocument(record=decision(1), outcome=appended(said), **place),
            ],
            [CommandDocument(record=command, progress=(appended(report),), **place)],
        )
    )
    assert [(each.kind, each.reason) for each in told] == [("Warning", "Refused"), ("Warning", "RescaleFailed")]
    assert told[0].message == "refused: paused: Busy. by ann"
    assert told[1].message.startswith("#2.0 commit failed 00:00: NO_ROOM")
    assert len(told[1].message) == MESSAGE_MAX
    involved = {"name": "clicks", "uid": "u"}
    first, second = (event_of("shop", involved, each)["metadata"]["name"] for each in told)
    assert first != second
    assert event_of("shop", involved, told[0])["metadata"]["name"] == first


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stream_namespaces": "shop, Pay"}, "SURESCALE_STREAM_NAMESPACES: 'Pay' is no name of a namespace"),
        ({"stream_namespaces": "shop", "kubernetes_url": "nowhere"}, "SURESCALE_KUBERNETES_URL"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, str], says: str) -> None:
    """By their names."""
    with pytest.raises(SettingsError, match=says):
        StateSettings(**given)  # type: ignore[arg-type]
    assert StateSettings(stream_namespaces="shop, pay,shop").namespaces == ("shop", "pay")


def test_a_resource_that_could_not_be_listed_once_while_kafka_is_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made of it is forgotten then, though not that it was looked at."""
    there, is_away = [stream()], False

    def read_jobs(_: StateSettings) -> KnownJobs:
        if is_away:
            raise ConnectionError("Kafka does not answer")
        return known()

    monkeypatch.setattr(controller, "read_jobs", read_jobs)
    monkeypatch.setattr(controller, "write_all", lambda *_: None)
    monkeypatch.setattr(controller, "name_of_pipeline", lambda _: "it")
    settings = StateSettings(kubernetes_url="http://127.0.0.1:1", stream_namespaces="shop")
    made: Any = controller.StreamController(settings, cast(Any, None), threading.Event(), logging.getLogger("test"))
    made._set(there, ["shop"])
    is_away = True
    made._set([], [])  # the API server did not answer
    made._set_s = None  # five minutes later
    made._set(there, ["shop"])
    assert [(each.is_set, each.reason) for each in made._verdicts.values()] == [(None, "CannotSet")]
