"""What the doctor says of an engine whose figures come from Prometheus."""

import json
from pathlib import Path

from contracts.settings import RoadSettings
from runtime.ports import free_port
from services.doctor.checks import engine

SAID = ("ok", "source", "figures come from Prometheus; the monitor's log says what is wrong with them")


def test_flink_is_not_asked_when_prometheus_is() -> None:
    """It may be out of reach."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    settings = RoadSettings(engine="flink", source="prometheus", actuator="none", engine_url=nowhere)
    assert [(each.verdict, each.subject, each.detail) for each in engine(settings)] == [SAID]


def test_the_groups_of_an_actuator_are_checked_all_the_same(tmp_path: Path) -> None:
    """The file says how their workers are started."""
    file = tmp_path / "groups.json"
    settings = RoadSettings(
        engine="kafka", source="prometheus", actuator="processes", groups_file=str(file), workers_folder=str(tmp_path)
    )
    assert [(each.verdict, each.subject) for each in engine(settings)] == [("ok", "source"), ("problem", "engine")]
    file.write_text(json.dumps({"orders": {"groups": {"parse": {}}}}))
    assert [(each.verdict, each.subject) for each in engine(settings)] == [("ok", "source"), ("ok", "engine")]
    assert [(each.verdict, each.subject) for each in engine(RoadSettings(engine="kafka", source="prometheus"))] == [
        ("ok", "source")
    ]
