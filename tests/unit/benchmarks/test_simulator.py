"""The benchmark of the simulator measures what it says."""

import json

from click.testing import CliRunner

from benchmarks.simulator import command


def test_every_mode_and_size_is_measured_beside_its_target() -> None:
    """Four figures each; the encoder costs more than reward alone."""
    result = CliRunner().invoke(command, ["--rows", "2", "--seconds", "0.01", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    cells = [value for name, value in found.items() if name.endswith("_tasks")]
    assert len(cells) == 12
    assert all(
        0 < cell["encoded"] < cell["reward_alone"] and min(cell["with_figures"], cell["encoded_sure"]) > 0 for cell in cells
    )
    assert (found["clean_16_tasks"]["target"], found["compat_46_tasks"]["target"]) == (40_000, 4_000)
    assert {"seed", "processor", "cores", "load_average", "python"} <= found["conditions"].keys()
