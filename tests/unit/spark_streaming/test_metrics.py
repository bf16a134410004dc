"""How far the Spark job is behind, from Spark's own progress report."""

import pytest

from surescale.spark_streaming.metrics import lag_of


@pytest.mark.parametrize(
    ("read", "latest", "lag"),
    [
        ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}', 4),
        ('{"t":{"0":5}}', '{"t":{"0":5,"1":3}}', 0),  # a partition that no batch has met yet
        ("", '{"t":{"0":9}}', 0),
        ('{"t":{"0":5}}', "null", 0),
    ],
)
def test_the_lag_is_what_lies_between_read_and_latest(read: str, latest: str, lag: int) -> None:
    """Summed over topics and partitions; what is not known counts as nothing."""
    assert lag_of([{"endOffset": read, "latestOffset": latest}]) == lag
