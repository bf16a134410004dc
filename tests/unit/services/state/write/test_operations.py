"""Operations on the view: a batch is condensed to those that have an effect."""

from surescale.services.state.write.operations import AddMember, AddUp, DropField, Operation, Remember, SetField, condensed


def remember(number: int) -> Remember:
    """Return a record of one timeline."""
    return Remember("decisions", "sim/clicks", str(number), number, b"{}", 500, "decisions.hold")


def test_the_last_word_on_a_field_is_left() -> None:
    """A field that is set, dropped and set again is set once; another field of the same key is unaffected."""
    key, other = "job:sim/clicks", SetField("job:sim/clicks", "gate", b"1")
    batch: list[Operation] = [SetField(key, "topology", b"1"), other, DropField(key, "topology"), SetField(key, "topology", b"2")]
    assert condensed(batch) == [SetField(key, "topology", b"2"), other]


def test_a_field_that_is_dropped_last_is_dropped() -> None:
    """The tombstone wins over earlier values."""
    assert condensed([SetField("clocks", "sim", b"1"), DropField("clocks", "sim")]) == [DropField("clocks", "sim")]


def test_a_member_is_added_once_to_each_set() -> None:
    """The same name in two sets stays in both."""
    batch = [AddMember("jobs", "sim"), AddMember("clusters", "sim"), AddMember("jobs", "sim")]
    assert condensed(batch) == batch[:2]


def test_what_is_remembered_and_counted_stays_as_often_as_it_came() -> None:
    """A record that arrives twice is a duplicate, and the view counts duplicates; so none is removed."""
    batch: list[Operation] = [remember(1), AddUp("unreadable.clock"), remember(2), remember(1), AddUp("unreadable.clock")]
    assert condensed(batch) == batch


def test_the_highest_version_of_a_field_is_left_for_the_view_to_compare() -> None:
    """It may hold a higher one than the whole batch. A tombstone cancels the versions before it and none after it."""
    key = "job:sim/clicks"
    first, second = SetField(key, "settings", b"3", version=3), SetField(key, "settings", b"2", version=2)
    again = SetField(key, "settings", b"3, later", version=3)
    assert condensed([first, second]) == condensed([second, first]) == [first]
    assert condensed([first, again]) == [again]
    assert condensed([first, DropField(key, "settings"), second]) == [DropField(key, "settings"), second]
