"""The file that says which resource runs which job."""

from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.flink_operator.resource import check_no_vertices, check_vertices, read_operated_jobs

VERTEX = "cbc357ccb763df2852fee8c4fc7d55f2"
_JOB = '[orders]\nnamespace = "streaming"\nname = "orders"\n'


def _read(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    return {name: job.target.path for name, job in read_operated_jobs(file).items()}


def test_it_names_a_resource_for_each_job(tmp_path: Path) -> None:
    """A FlinkDeployment, unless it says otherwise; a job may be called anything that Flink allows."""
    text = f'{_JOB}\n["count words"]\nnamespace = "streaming"\nname = "words"\nresource = "flinksessionjobs"\n'
    base = "/apis/flink.apache.org/v1beta1/namespaces/streaming"
    assert _read(tmp_path, text) == {
        "orders": f"{base}/flinkdeployments/orders",
        "count words": f"{base}/flinksessionjobs/words",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no job; docs/kubernetes.md shows the form"),
        ("orders", "docs/kubernetes.md shows the form"),
        ('[orders]\nname = "orders"\n', "orders: 'namespace' is missing"),
        (_JOB + 'kind = "x"\n', "there is no field 'kind'"),
        (_JOB + 'rescale = "restart"\n', "'restart' is not one of "),
        (_JOB + 'resource = "flinksessionjobs"\nrescale = "upgrade"\n', "orders.rescale: upgrade is for flinkdeployments"),
        (_JOB + 'resource = "deployments"\n', "'deployments' is not one of flinkdeployments, flinksessionjobs"),
        (_JOB.replace("streaming", "../kube-system"), "must fit the pattern"),
        (_JOB + '[orders.vertices]\nparse = "x"\n', "must fit the pattern"),
        (_JOB + _JOB.replace("[orders]", "[again]"), "again: streaming/flinkdeployments/orders is also orders"),
        (_JOB + f'[orders.vertices]\na = "{VERTEX}"\nb = "{VERTEX}"\n', "orders.vertices: two tasks have one vertex id"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    """In one line, with the setting."""
    with pytest.raises(SettingsError) as wrong:
        _read(tmp_path, text)
    assert said in str(wrong.value)
    assert str(wrong.value).startswith("SURESCALE_FLINK_RESOURCES_FILE: ")
    assert "\n" not in str(wrong.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(SettingsError, match=r"SURESCALE_FLINK_RESOURCES_FILE: .*cannot be read .*name a readable file"):
        read_operated_jobs(tmp_path / "nothing.toml")


def test_vertices_are_named_where_figures_are_and_nowhere_else(tmp_path: Path) -> None:
    """Prometheus knows tasks by any name, Flink by the vertex' id."""
    file = tmp_path / "jobs.toml"
    file.write_text(f'{_JOB}[orders.vertices]\nparse = "{VERTEX}"\n')
    jobs = read_operated_jobs(file)
    check_vertices(jobs, "orders", ["parse", VERTEX])
    check_vertices(jobs, "somebody else's", ["any"])
    with pytest.raises(SettingsError, match=r"orders\.vertices\.count: not set, and 'count' is not a vertex id of Flink; set"):
        check_vertices(jobs, "orders", ["parse", "count"])
    with pytest.raises(SettingsError, match=r"orders\.vertices: only SURESCALE_SOURCE=prometheus uses it"):
        check_no_vertices(jobs)
