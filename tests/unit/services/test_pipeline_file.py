"""The pipeline's file: what it sets, what wins over it, and one line for each slip."""

import os
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.engines.groups import GroupsSettings
from surescale.engines.settings import ClusterSettings
from surescale.services.pipeline_file import chosen, read, used
from tests.support.command_line import surescale

FILE = """
[settings]
engine = "kafka"
bootstrap = "kafka:9092"
span_minutes = 2
pipeline_clock = true
hung_after_s = 90.5
run_folder = "somewhere"

[up]
one-process = true

[chains.orders.groups.parse]
reads = ["orders"]

[jobs."kafka/orders"]
max = 12
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the working folder, and an environment that names no setting."""
    for name in [each for each in os.environ if each.startswith("SURESCALE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "surescale.toml"
    path.write_text(FILE)
    return path


def test_settings_and_groups_become_what_roles_read_and_are_gone_afterwards(file: Path) -> None:
    """Values of every type, and the groups in the file itself."""
    before = dict(os.environ)
    with used(chosen(None)) as found:
        settings = from_environment(ClusterSettings)
        assert (settings.engine, settings.bootstrap, settings.span_minutes) == ("kafka", "kafka:9092", 2)
        assert (settings.pipeline_clock, settings.hung_after_s) == (True, 90.5)
        assert settings.part(GroupsSettings).groups_file == f"{file}#chains"
        assert os.environ["SURESCALE_RUN_FOLDER"] == "somewhere"
        assert os.environ["SURESCALE_FILE"] == str(file)
    assert found is not None
    assert (found.up, found.has_jobs) == ({"one-process": True}, True)
    assert dict(os.environ) == before


def test_a_variable_wins_and_is_named_with_what_it_overrules(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that says the same overrules nothing."""
    monkeypatch.setenv("SURESCALE_BOOTSTRAP", "other:9092")
    monkeypatch.setenv("SURESCALE_SPAN_MINUTES", "2")
    with used(file) as found:
        assert from_environment(PipelineSettings).bootstrap == "other:9092"
        assert found is not None
        assert found.overruled() == ["SURESCALE_BOOTSTRAP"]
        assert found.place("SURESCALE_BOOTSTRAP") == "[settings] bootstrap"
        assert found.place("SURESCALE_GROUPS_FILE") == "[chains]"
    assert os.environ["SURESCALE_BOOTSTRAP"] == "other:9092"


def test_which_file_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option's, the variable's, the one in the folder; an empty variable asks for none."""
    assert chosen(Path("given.toml")) == Path("given.toml")
    assert chosen(None) == Path("surescale.toml")
    monkeypatch.setenv("SURESCALE_FILE", "named.toml")
    assert chosen(None) == Path("named.toml")
    monkeypatch.setenv("SURESCALE_FILE", "")
    assert chosen(None) is None
    monkeypatch.delenv("SURESCALE_FILE")
    file.unlink()
    assert chosen(None) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"kafka:9092"', '"a\\u0000"', "[settings] bootstrap: has a NUL, which no variable can hold; take it out"),
        ("[settings]", "[setings]", "there is no table [setings]; did you mean [settings]?"),
        ("[settings]", "[zzz]", "there is no table [zzz]; known: [chains], [jobs], [settings], [up]"),
        ("bootstrap", "bootstrp", "[settings] bootstrp: there is no setting of this name; did you mean bootstrap?"),
        (
            "bootstrap",
            "SURESCALE_BOOTSTRAP",
            "[settings] SURESCALE_BOOTSTRAP: there is no setting of this name; did you mean bootst",
        ),
        ("bootstrap", "zzzzzz", "docs/reference/settings.md lists them"),
        ("run_folder", "file", "[settings] file: there is no setting of this name"),
        (
            '"kafka:9092"',
            '["a:1", "b:2"]',
            "[settings] bootstrap: takes a number or a text; write several values as one text, with",
        ),
        ("= 2", '= "two"', "[settings] span_minutes: 'two' is not a whole number"),
        ("= true\nhung", "= 2\nhung", "[settings] pipeline_clock: '2' is not true or false"),
        ("= 2", "= 2026-12-24", "[settings] span_minutes: takes a number or a text; "),
        ("= 2", "= 0x" + "f" * 5_000, "[settings] span_minutes: takes a number or a text; "),
        ("= 90.5", "= nan", "[settings] hung_after_s: 'nan' is not a number"),
        ("run_folder", "groups_file", "[settings] groups_file: the groups stand in [chains] already; take one out"),
        ("[settings]\n", "settings = 3\n[up2]\n", "settings: is not a table; write [settings] and what belongs to it below"),
        ("[settings]", "[settings", "is not TOML: Expected ']'"),
    ],
)
def test_a_slip_is_one_line_that_names_the_place_and_the_fix(file: Path, before: str, after: str, said: str) -> None:
    """Before anything is done."""
    assert before in FILE
    file.write_text(FILE.replace(before, after, 1))
    with pytest.raises(SettingsError) as wrong:
        read(file)
    assert str(wrong.value).startswith(f"{file}: ")
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("= 2", "= 0", "SURESCALE_SPAN_MINUTES ([settings] span_minutes of surescale.toml): 0 is not a time between decisions"),
        ('"kafka"', '"flink"', "SURESCALE_GROUPS_FILE ([chains] of surescale.toml): only SURESCALE_ENGINE=kafka uses it"),
        ("nothing else", "", "SURESCALE_GROUPS_FILE ([chains] of surescale.toml): "),
        ("one-process", "one-proces", "surescale.toml: [up] one-proces: there is no such option here; did you mean one-process?"),
        ("one-process", "bootstrap", "surescale.toml: [up] bootstrap: there is no such option here; known: checkpoint, "),
        ("one-process = true", 'wait = "x"', "surescale.toml: [up] wait: 'x' is not a number"),
        ("max = 12", "mx = 12", "[jobs.\"kafka/orders\"]: there is no setting 'mx'; did you mean max?"),
        ('"kafka/orders"', '"orders"', '[jobs."orders"]: is no name of a job; write CLUSTER/NAME'),
        ("= 2", '= 2\nredis_url = "nowhere"', "SURESCALE_REDIS_URL ([settings] redis_url of surescale.toml): 'nowhere' is not"),
    ],
)
def test_up_ends_with_the_place_in_the_file(file: Path, before: str, after: str, said: str) -> None:
    """Of what only the settings, the options, the groups or the jobs know to be wrong; before Kafka is asked."""
    text = FILE.replace(before, after, 1).replace("clock = true", "clock = false")
    file.write_text(text if after else text.replace("reads", "raeds"))
    done = surescale("up")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert said in done.stderr
    assert after or "orders.groups.parse: there is no field 'raeds'; did you mean reads?" in done.stderr


def test_up_looks_for_the_programs_of_workers(file: Path) -> None:
    """By name on the path, and from the folder of the file; before Kafka is asked."""
    own = 'actuator = "processes"\nworkers_folder = "workers"\nbootstrap = "nowhere:1"'
    for program, where in (("no-such-program", "on the path"), ("./parse.sh", f"from {file.parent}")):
        group = f'[chains.orders.groups.parse]\nworkers.command = ["{program}"]'
        file.write_text(
            FILE.replace('bootstrap = "kafka:9092"', own).replace("[chains.orders.groups.parse]", group).replace("true", "false")
        )
        done = surescale("up")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert f"orders.groups.parse.workers.command: no program '{program}' was found {where}; install it" in done.stderr


def test_every_command_reads_the_file_and_help_does_not(file: Path) -> None:
    """A wrong one ends a command before it connects to anything."""
    file.write_text("[settings]\nredis_ulr = 1\n")
    done = surescale("job", "list")
    assert (done.returncode, done.stderr) == (
        1,
        "surescale: surescale.toml: [settings] redis_ulr: there is no setting of this name; did you mean redis_url?\n",
    )
    assert surescale("job", "list", "--help").returncode == 0
    file.write_text('[settings]\nredis_url = "nowhere"\n')
    done = surescale("job", "list")
    assert "'nowhere' is not an address of Redis" in done.stderr


def test_a_file_that_is_named_and_not_there_is_one_line(file: Path) -> None:
    """With what writes one."""
    done = surescale("up", "--file", "none.toml")
    assert done.stderr == (
        "surescale: none.toml: cannot be read (no such file or directory); `surescale init` writes such a file\n"
    )
