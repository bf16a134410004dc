"""``surescale demo-consumers``: real consumer groups scaled on this machine, from nothing to a table, leaving nothing behind."""

from typing import Any, Final

import click

from runtime import options
from services.local_stack.comparison import demo

ROWS: Final = {
    "backlog_record_seconds": "backlog-seconds (records waiting x seconds)",
    "backlog_records_max": "most records waiting",
    "late": "records later than half a minute, or never out",
    "member_minutes": "member-minutes",
    "rebalances": "rebalances",
    "stillness_s": "longest stall of the output, s",
    "records_in": "records in",
    "records_out": "records out",
    "waiting": "not through before the end",
    "missing": "missing",
    "doubled": "duplicated",
}


@click.command("demo-consumers")
@demo.load_options(seconds=105, seconds_min=30, mean=14.0)
@click.option("--policy", "policies", multiple=True, default=("target-utilisation", "static"), show_default=True,
              help="Policy that scales a chain of its own under the same load; static: nobody does; keda: KEDA's rule, 10 "
              "records waiting for each member, keda-N: N; hpa-cpu: HorizontalPodAutoscaler on CPU. Repeatable.")  # fmt: skip
@click.option("--clock-speed", "speed", type=options.FiniteRange(min=1.0, max=20.0), default=6.0, show_default=True,
              help="Minutes of the pipeline, and of the rivals, in one minute: how often they decide.")  # fmt: skip
@demo.seed
@demo.outcome_options
def command(*, record: Any, out: Any, keep: bool, **given: Any) -> None:
    """Scale real consumer groups on this machine by workers.

    Starts Kafka, Redis, a chain of three consumer groups for each policy, all on the same topic, and surescale, which
    starts and drains worker processes. Ends by itself with a table.
    """
    from services.local_stack.consumers.pipeline import ConsumersPipeline, ConsumersPipelineOptions

    options = ConsumersPipelineOptions(**demo.load_given(given))
    demo.run(
        lambda say: ConsumersPipeline(options, say),
        ROWS,
        "members (parse-enrich-deliver)",
        f"clock x{given['speed']:g}",
        record=record,
        out=out,
        keep=keep,
    )
