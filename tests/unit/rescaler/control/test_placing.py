"""On which hosts a job's units lie, and what they cost."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import Host, JobTopology
from surescale.contracts.settings import from_environment
from surescale.rescaler.control.settings import PlacingAlgorithm, PlacingSettings
from surescale.rescaler.control.units import choose_units
from surescale.rescaler.refusals import Refused
from surescale.rescaler.service.settings import RescalerSettings
from tests.support.controller_world import job

SMALL, LARGE = 2.417e-3, 7.778e-3
HOSTS = (
    Host(host="l1", units=tuple(range(8)), cpu_cores=8.0, memory_gb=12.0, price_per_s=4.861e-3),
    Host(host="m1", units=(8, 9, 10, 11), price_per_s=SMALL),
    Host(host="m2", units=(12, 13, 14, 15), price_per_s=SMALL),
    Host(host="x1", units=tuple(range(16, 28)), cpu_cores=12.0, memory_gb=16.0, price_per_s=LARGE),
)


def units(
    topology: JobTopology,
    width: int,
    hosts: tuple[Host, ...] = HOSTS,
    taken: tuple[int, ...] = (),
    algorithm: PlacingAlgorithm = "cetsa",
    **gains: float,
) -> dict[str, list[int]]:
    """The units per host in use."""
    answer = choose_units(topology, width, hosts, taken=taken, settings=PlacingSettings(algorithm, **gains))
    return {host: sorted(chosen) for host, chosen in answer.units.items() if chosen}


def going(name: str) -> tuple[Host, ...]:
    """The hosts; one of them leaves soon."""
    return tuple(
        Host(host=host.host, units=host.units, price_per_s=host.price_per_s, state="removed_soon") if host.host == name else host
        for host in HOSTS
    )


def test_a_host_that_is_paid_already_is_filled_first() -> None:
    """A growing job takes the free units of its own host before it opens a cheaper one."""
    assert units(job(units=(16, 17)), 6, gain_min=1.0) == {"x1": [16, 17, 18, 19, 20, 21]}


def test_then_the_cheapest_slots_come() -> None:
    """What does not fit on hosts in use goes where a slot costs least."""
    assert units(job(units=(8, 9)), 6) == {"m1": [8, 9, 10, 11], "m2": [12, 13]}


def test_a_shrinking_job_drains_whole_hosts() -> None:
    """Units are given up on the host whose rent ends with them, not evenly."""
    assert units(job(units=(8, 9, 12, 13, 0, 1)), 4, gain_min=1.0) == {"m1": [8, 9], "m2": [12, 13]}


def test_units_of_others_are_background() -> None:
    """A host that others fill is passed over."""
    assert units(job(units=(8,)), 3, taken=(9, 10, 11), gain_min=1.0) == {"m1": [8], "m2": [12, 13]}


def test_a_host_that_goes_soon_is_drained() -> None:
    """Nothing stays on it, and nothing new comes."""
    assert units(job(units=(8, 9)), 3, going("m1")) == {"m2": [12, 13, 14]}


def test_a_job_moves_to_cheaper_hosts_when_that_pays() -> None:
    """Two units alone on the dearest host move to the smallest one with the rescale that is made anyway."""
    assert units(job(units=(16, 17)), 3) == {"m1": [8, 9, 10]}


def test_a_small_gain_moves_nothing() -> None:
    """The rent that a move saves has to reach the share asked for: a stateful job's state has its price."""
    saved = 1 - SMALL / LARGE
    stateful = job(units=(16, 17))
    assert units(stateful, 3, gain_min=saved + 0.01, state_gain_min=0.0) == {"x1": [16, 17, 18]}
    assert units(stateful, 3, gain_min=saved - 0.01, state_gain_min=0.0) == {"m1": [8, 9, 10]}
    assert units(stateful, 3, gain_min=saved - 0.01, state_gain_min=0.1) == {"x1": [16, 17, 18]}


def test_nothing_moves_between_equal_hosts() -> None:
    """A host as cheap as the job's own is no reason to move."""
    assert units(job(units=(12, 13)), 3, gain_min=0.0) == {"m2": [12, 13, 14]}


def test_a_unit_with_more_subtasks_is_kept() -> None:
    """Of a host's units those stay that hold most of the job; then the lowest ids."""
    topology = job(units=(8, 9, 10))
    tasks = tuple(
        spec if spec.task != "map" else type(spec)(task="map", upstream=("source",), parallelism=1, units=(10,))
        for spec in topology.tasks
    )
    assert units(job(units=(8, 9, 10), tasks=tasks), 2) == {"m1": [8, 10]}


def test_the_placement_says_what_it_costs() -> None:
    """Rent before and after, and of as many units dealt out or drawn at random."""
    placement = choose_units(job(units=(16, 17)), 3, HOSTS, taken=(), settings=PlacingSettings()).placement
    assert (placement.algorithm, placement.hosts) == ("cetsa", ("m1",))
    assert (placement.rent_per_s, placement.rent_before_per_s) == (SMALL, LARGE)
    assert placement.rent_round_robin_per_s == pytest.approx(4.861e-3 + 2 * SMALL)
    none = {8: 20 * 19 * 18, 4: 24 * 23 * 22, 12: 16 * 15 * 14}
    expected = sum(host.price_per_s * (1 - none[len(host.units)] / (28 * 27 * 26)) for host in HOSTS)
    assert placement.rent_default_per_s == pytest.approx(expected)


def test_lba_ce_uses_what_exists_before_it_refuses() -> None:
    """The free part that LBA-CE leaves on every host is a preference: a job that needs every unit gets them."""
    assert units(job(units=(8,)), 3, algorithm="lba-ce") == {"m1": [8, 9, 10]}
    assert units(job(units=(8,)), 28, algorithm="lba-ce") == {host.host: list(host.units) for host in HOSTS}


@pytest.mark.parametrize("algorithm", ["cetsa", "lba-ce", "spread"])
def test_too_few_units_are_refused(algorithm: PlacingAlgorithm) -> None:
    """More units than hosts have left is refused with the code of planning."""
    with pytest.raises(Refused, match="wants 28 parallel units, 27 are usable") as refusal:
        units(job(units=(8,)), 28, taken=(0,), algorithm=algorithm)
    assert refusal.value.code == "NOT_ENOUGH_PARALLEL_UNITS"


@pytest.mark.parametrize(("variable", "text"), [("SURESCALE_PLACEMENT", "cheapest"), ("SURESCALE_PLACEMENT_GAIN_MIN", "1.5")])
def test_a_wrong_setting_is_named(variable: str, text: str) -> None:
    """A placement that does not exist and a gain that is no share are errors that name the variable."""
    with pytest.raises(SettingsError, match=f"{variable}: .*{text}"):
        from_environment(RescalerSettings, {variable: text})


def test_settings_reach_the_placing() -> None:
    """What the environment says is what hosts are chosen by."""
    asked = from_environment(RescalerSettings, {"SURESCALE_PLACEMENT": "lba-ce", "SURESCALE_PLACEMENT_GAIN_MIN": "0.25"})
    assert asked.control().placing == PlacingSettings("lba-ce", 0.25)
    assert RescalerSettings().control().placing.algorithm == "cetsa"
