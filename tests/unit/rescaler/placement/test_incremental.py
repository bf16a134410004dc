"""What stays, what stops, what moves when a placement is given."""

from dataclasses import replace

import pytest

from surescale.rescaler.placement import ALGORITHMS, Host, Params, PlaceRequest, Subtask, Task, place


def on(**hosts_of_tasks):
    """A placement: on(t="aab") puts t/0 and t/1 on a and t/2 on b."""
    return {Subtask(task, at): host for task, hosts in hosts_of_tasks.items() for at, host in enumerate(hosts)}


def where(answer):
    """Host ids in the order of task and index, as one string."""
    return "".join(answer.assignment.values())


def test_scale_out_fills_paid_hosts_first(hosts, request_of):
    """CETSA starts with the dear host the job already pays for."""
    assert where(place(request_of("cetsa", hosts(1, 9), 4, placement=on(t="b")))) == "bbbb"


def test_other_algorithms_place_new_subtasks_by_their_own_rule(hosts, request_of):
    """First fit goes to the first host, no matter who pays."""
    assert where(place(request_of("ff", hosts(1, 9), 3, placement=on(t="b")))) == "baa"


def test_gio_does_not_improve_what_runs(hosts, request_of):
    """GIO leaves running subtasks on their dear host."""
    assert where(place(request_of("gio", hosts(1, 9), 2, placement=on(t="b")))) == "ba"


def test_scale_in_empties_the_host_that_saves_most(hosts, request_of):
    """Price per stopped subtask decides: b saves 4 for one stop, a saves 4.5 for two."""
    answer = place(request_of("cetsa", hosts(4.5, 4), 2, placement=on(t="aab")))
    assert where(answer) == "aa"
    assert (answer.rescale.stopped, answer.rescale.moves) == ({"t": 1}, 0)


def test_the_rest_of_a_scale_in_stops_on_the_worst_host(hosts, request_of):
    """No host can be emptied: the least cost-efficient one loses, highest index first."""
    answer = place(request_of("cetsa", hosts(1, 2), 5, placement=on(t="aaabbb")))
    assert where(answer) == "aaabb"


def test_lba_ce_stops_on_the_most_loaded_host(hosts, request_of):
    """LBA-CE relieves the fuller host, cheap or not."""
    answer = place(request_of("lba-ce", hosts(1, 2), 4, placement=on(t="aaabb")))
    assert where(answer) == "aabb"


def test_survivors_with_a_high_index_take_the_free_ones(hosts, request_of):
    """Index 3 survives on b and becomes the lowest index that is free."""
    request = request_of("cetsa", hosts(9, 1), 2, placement=on(t="abab"))
    assert where(place(request)) == "bb"


def test_a_subtask_of_a_lost_host_starts_again_and_counts_as_a_move(hosts, request_of):
    """One stops where the host was, one starts elsewhere."""
    answer = place(request_of("cetsa", hosts(1), 2, placement={**on(t="a"), Subtask("t", 1): "gone"}))
    assert where(answer) == "aa"
    assert (answer.rescale.started, answer.rescale.stopped, answer.rescale.moves) == ({"t": 1}, {"t": 1}, 1)


def test_a_cordoned_host_sheds_everything(hosts, request_of):
    """Slots 0 means: leave."""
    first, second = hosts(1, 2)
    answer = place(request_of("cetsa", (replace(first, slots=0), second), 2, placement=on(t="aa")))
    assert where(answer) == "bb"


def test_the_threshold_does_not_evict(hosts, request_of):
    """Four cores of four are above 0.8 but within capacity: they stay."""
    assert where(place(request_of("lba-ce", hosts(1, 1), 4, placement=on(t="aaaa")))) == "aaaa"


def test_a_host_above_its_full_capacity_sheds_the_last_in_order(hosts, request_of):
    """Background grew by one core: the last subtask leaves."""
    first, second = hosts(1, 9)
    answer = place(request_of("cetsa", (replace(first, used_cpu=1.0), second), 4, placement=on(t="aaaa")))
    assert where(answer) == "aaab"


def test_what_a_host_must_shed_counts_towards_a_scale_in(hosts, request_of):
    """One subtask has to leave a and one fewer is wanted: it stops, nothing moves."""
    first, second = hosts(1, 1)
    answer = place(request_of("cetsa", (replace(first, slots=1), second), 2, placement=on(t="aab")))
    assert sorted(where(answer)) == ["a", "b"]
    assert answer.rescale.moves == 0


def test_mode_fresh_places_everything_anew(hosts, request_of):
    """A given placement then only counts the changes."""
    answer = place(request_of("cetsa", hosts(1, 9), 2, placement=on(t="bb"), params=Params(mode="fresh")))
    assert where(answer) == "aa"
    assert answer.rescale.moves == 2


def test_a_removed_task_frees_its_host(hosts):
    """Parallelism 0 stops all subtasks of a task."""
    tasks = (Task("s", 1, 1, 1), Task("t", 0, 1, 1))
    answer = place(PlaceRequest("cetsa", hosts(1, 2), tasks, placement=on(s="a", t="bb")))
    assert answer.hosts_used == 1
    assert answer.rescale.stopped == {"t": 2}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("count", [0, 1, 3, 6, 9, 12])
def test_pure_rescaling_moves_nothing(hosts, request_of, algorithm, count):
    """From six subtasks on three hosts to any number: only starts or only stops."""
    answer = place(request_of(algorithm, hosts(1, 2, 3), count, cpu=0.8, placement=on(t="aabbcc")))
    assert answer.rescale.moves == 0
    assert answer.feasible
    assert answer.rescale.started.get("t", 0) - answer.rescale.stopped.get("t", 0) == count - 6


def test_the_contracts_example_comes_out_as_printed():
    """Scale-out 1 to 3: l1 is paid already and fills first."""
    hosts = (
        Host("m2", 4, 8, 4, 0.002417, zone="a"),
        Host("l1", 8, 12, 4, 0.004861, zone="a", used_cpu=1, used_memory=2, used_slots=1),
    )
    tasks = (Task("src", 1, 0.5, 0.5), Task("agg", 3, 1.0, 1.0))
    request = PlaceRequest("cetsa", hosts, tasks, placement={Subtask("src", 0): "l1", Subtask("agg", 0): "l1"})
    assert list(place(request).assignment.values()) == ["l1", "l1", "l1", "m2"]
    assert list(place(replace(request, algorithm="lba-ce")).assignment.values()) == ["l1", "l1", "m2", "m2"]
