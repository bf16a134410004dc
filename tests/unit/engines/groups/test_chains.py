"""The file that says which groups form a job: what it means, and one line for each slip."""

from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_settings import JobSettings
from surescale.engines.groups.chains import Chain, read_chains
from surescale.engines.groups.members import Member

SHOP = """
[shop]
mode = "advise"

[shop.groups.parse]
group = "shop-parse"
reads = ["orders"]
writes = ["parsed"]

[shop.groups.count]
reads = ["parsed", "prices"]
metrics = "http://{host}:{number}/metrics"
busy = "busy_seconds_total"

[shop.groups.count.workers]
command = ["count", "--index", "{index}"]
"""


def test_a_chain_is_ordered_by_who_writes_what_others_read(tmp_path: Path) -> None:
    """A group is named like its task unless the file says otherwise."""
    file = tmp_path / "groups.toml"
    file.write_text(SHOP)
    chain = read_chains(file)["shop"]
    assert [chain.group_of(task) for task in chain.groups] == ["shop-parse", "count"]
    assert chain.upstream("count", frozenset(chain.groups["count"].reads)) == ("parse",)
    assert chain.upstream("parse", frozenset({"orders", "parsed"})) == ()  # its own output
    assert (chain.labels, chain.groups["count"].workers is not None) == ({"surescale.mode": "advise"}, True)


def read_chains_of(folder: Path, text: str) -> dict[str, Chain]:
    """Return the jobs of a file of groups alone."""
    (folder / "groups.toml").write_text(text)
    return read_chains(folder / "groups.toml")


def test_limits_of_a_chain_become_labels_of_its_job(tmp_path: Path) -> None:
    """Beside its mode, whatever their type in the file."""
    file = tmp_path / "groups.toml"
    file.write_text(SHOP.replace('mode = "advise"', 'mode = "advise"\nlimits = {max = 12, utilisation = 0.6, align = false}'))
    labels = read_chains(file)["shop"].labels
    assert labels["surescale.mode"] == "advise"
    found = in_force(JobSettings(job="prod/shop"), labels)
    assert (found.parallelism_max, found.utilisation, found.align) == (12, 0.6, False)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('reads = ["orders"]', "reads = 7", r"shop\.groups\.parse\.reads: must be a list, like"),
        ('reads = ["orders"]', 'raeds = ["orders"]', r"shop\.groups\.parse: there is no field 'raeds'; did you mean reads\?"),
        ('mode = "advise"', 'mode = "on"', "shop.mode: 'on' is not one of act, advise, observe"),
        ('mode = "advise"', "limits = {maxx = 3}", r"shop\.limits: there is no limit 'maxx'; did you mean max\?"),
        (
            'mode = "advise"',
            "limits = {min = 9, max = 3}",
            r"shop\.limits: --min: 9 is more than --max 3; give a --min of at most",
        ),
        ('mode = "advise"', "limits = {max = nan}", r"shop\.limits\.max: 'nan' cannot be read: must be a whole number"),
        ('metrics = "http://{host}:{number}/metrics"', "", r"shop\.groups\.count: busy is set without metrics, where a member"),
        ('busy = "busy_seconds_total"', "", ""),  # of Java clients
        ("{number}", "{port}", r"shop\.groups\.count\.metrics: .*only {host} and {number} can be filled in"),
        ("{index}", "{}", r"shop\.groups\.count\.workers: .*only {index} and {port} can be filled in"),
        ('reads = ["orders"]', 'reads = ["counted"]', ""),
        (
            'group = "shop-parse"',
            'group = "count"',
            r"shop\.groups\.count and .*parse are one group, count; name it once",
        ),
        (
            '[shop.groups.count.workers]\ncommand = ["count", "--index", "{index}"]',
            'kubernetes = { namespace = "shop", name = "../pods" }',
            r"shop\.groups\.count\.kubernetes\.name: must fit the pattern",
        ),
        ("[shop]", "[shop", "docs/consumers.md shows the form"),
    ],
)
def test_a_slip_is_one_line_that_names_the_field(tmp_path: Path, before: str, after: str, said: str) -> None:
    """And the file and the setting."""
    file = tmp_path / "groups.toml"
    file.write_text(SHOP.replace(before, after, 1))
    if not said:  # nobody writes it: a topic from outside
        assert read_chains(file)
        return
    with pytest.raises(SettingsError, match=said) as refused:
        read_chains(file)
    assert str(refused.value).startswith(f"SURESCALE_GROUPS_FILE: {file}: ")
    assert "\n" not in str(refused.value)


def test_a_job_that_reads_what_it_wrote_is_refused(tmp_path: Path) -> None:
    """Over several groups."""
    file = tmp_path / "groups.toml"
    file.write_text(SHOP.replace('reads = ["orders"]', 'reads = ["counted"]').replace("busy =", 'writes = ["counted"]\nbusy ='))
    with pytest.raises(SettingsError, match="the graph has a cycle through or before parse, count; a job must not read"):
        read_chains(file)


def test_a_topic_has_one_writer(tmp_path: Path) -> None:
    """Nobody can tell the records of two apart."""
    file = tmp_path / "groups.toml"
    file.write_text(SHOP.replace("busy =", 'writes = ["parsed"]\nbusy ='))
    with pytest.raises(SettingsError, match=r"shop\.groups\.count\.writes: parsed is also written by parse"):
        read_chains(file)


def test_a_workload_scales_one_group(tmp_path: Path) -> None:
    """Two would each undo what the other asked for; another kind of the same name is another workload."""
    file = tmp_path / "groups.toml"
    same = 'kubernetes = { namespace = "shop", name = "worker" }'
    file.write_text(f"[shop.groups.parse]\n{same}\n[store.groups.count]\n{same}\n")
    said = r"store\.groups\.count and shop\.groups\.parse are both scaled by shop/deployments/worker; give each group a workload"
    with pytest.raises(SettingsError, match=said):
        read_chains(file)
    file.write_text(file.read_text().replace('"worker" }', '"worker", resource = "statefulsets" }', 1))
    target = read_chains(file)["shop"].groups["parse"].kubernetes
    assert target is not None
    assert target.path == "/apis/apps/v1/namespaces/shop/statefulsets/worker"


def test_the_groups_may_be_a_table_of_a_file_with_other_things(tmp_path: Path) -> None:
    """As in the pipeline's file; a slip there is named by its place."""
    file = tmp_path / "surescale.toml"
    file.write_text('[settings]\nengine = "kafka"\n' + SHOP.replace("[shop", "[chains.shop"))
    assert read_chains(Path(f"{file}#chains")) == read_chains_of(tmp_path, SHOP)
    file.write_text(file.read_text().replace("reads", "raeds", 1))
    with pytest.raises(SettingsError, match=r"surescale.toml#chains: shop\.groups\.parse: .*'raeds'; did you mean reads\?"):
        read_chains(Path(f"{file}#chains"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(SettingsError, match=r"SURESCALE_GROUPS_FILE: .*none.toml cannot be read \(no such file or directory\)"):
        read_chains(tmp_path / "none.toml")


def test_a_member_fills_in_its_host_and_the_last_number_of_its_client_id() -> None:
    """And nothing else: a client id is chosen by whoever connects."""
    member = Member("id", "parse-3-9400", "10.0.0.7", frozenset())
    assert member.filled_in("http://{host}:{number}/metrics") == "http://10.0.0.7:9400/metrics"
    assert Member("id", "c", "::1", frozenset()).filled_in("http://{host}:9400/metrics") == "http://[::1]:9400/metrics"


@pytest.mark.parametrize(
    "client_id",
    ["nobody@evil", f"x-{'9' * 5_000}", f"x-{2**54}", f"{'1' * 30_000}a" * 2, "\u0661\u0662"],
    ids=["none", "5,000 digits", "above 2^53", "60,000 digits", "digits of another script"],
)
def test_a_client_id_without_a_usable_number_fills_in_none(client_id: str) -> None:
    """No other port is asked in its place; where no number is wanted, the host is enough."""
    member = Member("id", client_id, "h", frozenset())
    assert member.filled_in("http://{host}:{number}/metrics") is None
    assert member.filled_in("http://{host}:9400/metrics") == "http://h:9400/metrics"


@pytest.mark.parametrize("name", ["x" * 156, "shop\u200b", "\u202epohs", "\u0085"])
def test_a_job_whose_id_no_record_could_hold_is_refused(tmp_path: Path, name: str) -> None:
    """Too long beside a cluster's name, or with letters that nobody sees: its records would be refused for ever."""
    with pytest.raises(SettingsError, match="is no name of a job; give it at most 155 visible letters"):
        read_chains_of(tmp_path, SHOP.replace("[shop", f'["{name}"'))
    assert set(read_chains_of(tmp_path, SHOP.replace("[shop", f'["{"x" * 155}"'))) == {"x" * 155}
