"""``surescale demo jobs``: what is shipped, by name."""

from click.testing import CliRunner

from surescale.services.tools.shipped_jobs import command


def test_a_name_that_no_job_has_is_told_as_it_was_given() -> None:
    """Whatever it is made of: brackets are no markup."""
    told = CliRunner().invoke(command, ["[/x]"])
    assert told.exit_code == 0
    assert told.output.startswith("no job has '[/x]' in its name")
