"""Every command: what help lists, in sections, with a line each, and where the command is.

Static, so that help imports no room. A test compares the lines with the commands themselves.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Command(NamedTuple):
    """A command: its line, and the module and name of what runs it."""

    line: str
    at: str


class Group(NamedTuple):
    """Commands about one thing. ``more`` is what help says below the line."""

    line: str
    sections: Mapping[str, Mapping[str, "Command | Group"]]
    more: str = ""

    def commands(self) -> dict[str, "Command | Group"]:
        """Return the commands by name, in the order of help."""
        return {name: each for lines in self.sections.values() for name, each in lines.items()}

    def paths(self) -> Iterator[tuple[str, str]]:
        """Yield each command's own word and what is typed for it, down to those of a group in this one."""
        for name, each in self.commands().items():
            yield name, f"surescale {name}"
            if isinstance(each, Group):
                yield from ((below, f"surescale {name} {below}") for below in each.commands())


_VIEW = "surescale.services.state.read.command"
_TOOLS = "surescale.services.tools"
_SETTINGS = f"{_TOOLS}.job_settings.command"
_PAUSES = f"{_TOOLS}.job_settings.pause_command"
_RELEASES = f"{_TOOLS}.policy_releases.command"

JOB = Group(
    "Show jobs and decisions; change, pause and approve what happens",
    {
        "Look": {
            "list": Command("Show all jobs, a line each", f"{_VIEW}:list_command"),
            "show": Command("Show a job with its tasks and latest decision", f"{_VIEW}:show_command"),
            "decisions": Command("Show a job's latest decisions and what became of them", f"{_VIEW}:decisions_command"),
            "explain": Command("Explain why a decision was made and what followed", f"{_TOOLS}.explain.command:command"),
            "settings": Command(
                "Show what is allowed for JOB, and which policy decides on it",
                f"{_SETTINGS}:show_settings",
            ),
            "history": Command(
                "Show every change of JOB's settings: when, by whom, what",
                f"{_SETTINGS}:history",
            ),
        },
        "Steer": {
            "set": Command("Change settings of JOB (cluster/name)", f"{_SETTINGS}:set_"),
            "pause": Command("Stop rescales of a job", f"{_PAUSES}:pause_job"),
            "resume": Command("End the pause of a job", f"{_PAUSES}:resume_job"),
            "approve": Command(
                "Carry out what was advised for a job in mode advise",
                f"{_TOOLS}.job_settings.approve_command:command",
            ),
            "pin": Command("Keep JOB as it is: its policy becomes hold", f"{_SETTINGS}:pin"),
            "adopt": Command("Accept the parallelism that somebody else gave JOB", f"{_SETTINGS}:adopt"),
            "reapply": Command(
                "Give JOB the parallelism it had before it was submitted again",
                f"{_SETTINGS}:reapply",
            ),
            "forget": Command(
                "End jobs of which no monitor tells any more",
                f"{_TOOLS}.job_settings.forget_command:command",
            ),
        },
        "Keep in files": {
            "apply": Command("Set jobs as a file or a folder says", f"{_TOOLS}.job_settings.file_commands:apply"),
            "export": Command("Print what is set, as a file for `job apply`", f"{_TOOLS}.job_settings.file_commands:export"),
        },
    },
    "What is set takes effect with the job's next span, a pause and an approval at once.",
)

CLUSTER = Group(
    "Show a cluster's workers, or pause all its jobs",
    {
        "Commands": {
            "show": Command("Show workers, units and fragments of CLUSTER", f"{_TOOLS}.cluster.command:command"),
            "pause": Command("Stop rescales of all jobs of a cluster", f"{_PAUSES}:pause_cluster"),
            "resume": Command("End the pause of a cluster", f"{_PAUSES}:resume_cluster"),
        }
    },
)

POLICY = Group(
    "List, try, release and roll back policies, or fit one",
    {
        "Release": {
            "list": Command("Show the folder's policies and the cluster's releases", f"{_RELEASES}:list_"),
            "verify": Command("Check that the policy NAME can be used", f"{_RELEASES}:verify"),
            "release": Command("Release the policy NAME", f"{_RELEASES}:release"),
            "rollback": Command("Undo the newest release", f"{_RELEASES}:rollback"),
            "withdraw": Command("End a release from the next minute on", f"{_RELEASES}:withdraw"),
        },
        "Try beside the one in use": {
            "shadow": Command("Run the policy NAME in shadow while another one decides", f"{_RELEASES}:shadow"),
            "shadows": Command("Compare shadow policies with the decisions made", f"{_RELEASES}:shadows"),
            "promote": Command("Release the policy NAME on its record from the shadow", f"{_RELEASES}:promote"),
            "tournament": Command(
                "Release to a job what would have served its last days best",
                f"{_TOOLS}.tournament.command:command",
            ),
        },
        "Try in the simulator": {
            "evaluate": Command(
                "Judge policies on a job under a workload, in the simulator", f"{_TOOLS}.evaluate.command:command"
            ),
            "twin": Command("Run other policies on the jobs and trace of `run engine`", "surescale.rescaler.cli.twin:command"),
            "export": Command("Fit the forecast of sure to loads, as a package", "surescale.model_export.commands:export"),
        },
    },
)

RECORDING = Group(
    "Record jobs, and try other policies on what happened",
    {
        "Commands": {
            "create": Command("Record topics or jobs to one file", f"{_TOOLS}.recording.command:command"),
            "replay": Command(
                "Let policies decide again on what was recorded", "surescale.services.local_stack.replay_command:command"
            ),
            "what-if": Command("Try other policies or settings on a recorded job", f"{_TOOLS}.what_if.command:command"),
            "calibrate": Command("Fit a world to a recorded job, for `policy evaluate`", f"{_TOOLS}.calibrate.command:command"),
        }
    },
)

RUN = Group(
    "Run one role, or several in one process; check a role's health",
    {
        "Roles": {
            "monitor": Command("Publish an engine's samples, topology and events to Kafka", "surescale.monitor.command:command"),
            "spark": Command(
                "Assemble each job's rolling windows from task metrics", "surescale.spark_streaming.command:command"
            ),
            "agent": Command("Answer windows with decisions, until stopped", "surescale.services.agent.command:command"),
            "rescaler": Command("Carry out the decisions made for one cluster", "surescale.rescaler.cli.service:command"),
            "state-service": Command(
                "Keep the view of all jobs in Redis and serve it over HTTP", "surescale.services.state.service_command:command"
            ),
            "engine": Command("Simulate an engine that runs jobs under a load", "surescale.services.engine.command:command"),
            "together": Command(
                "Run several roles in one process, until stopped", "surescale.services.local_stack.together_command:command"
            ),
        },
        "Look": {"health": Command("Check that a role is alive and ready", f"{_TOOLS}.health:command")},
    },
    "`surescale up` runs all of them.",
)

BENCH = Group(
    "Measure, or reproduce a published evaluation",
    {
        "Measure pure parts": {
            "simulator": Command("Steps of the simulator per second", "benchmarks.simulator:command"),
            "gate": Command("One gate over a million events: time and memory", "benchmarks.gate:command"),
            "reschedule": Command("Plans for 1,000 fragments on 1,000 parallel units", "benchmarks.reschedule:command"),
            "assign": Command("Learner assignment of 100,000 tasks on 110 hosts", "benchmarks.assign:command"),
            "rescale": Command(
                "One rescale in three ways: restart, cold, learners", "benchmarks.rescale_three_ways.command:command"
            ),
            "inference": Command("Time and memory of one decision's network", "reproductions.sure.commands:inference"),
            "step": Command("How policies answer a step of the load", "benchmarks.step:command"),
            "tracing": Command("What traces cost an agent, off and on", "benchmarks.tracing:command"),
            "worlds": Command("Judge policies and the best constant in every world", "benchmarks.worlds:command"),
            "coverage": Command("Measure how often the load stays within the outlook's band", "benchmarks.coverage:command"),
            "headroom": Command("Measure what forecasts of each task's demand are worth", "benchmarks.headroom:command"),
            "tournament": Command("Judge winners of tournaments on the days that follow", "benchmarks.tournament:command"),
        },
        "Measure running roles": {
            "spark": Command("Throughput, lag and freshness of the Spark job", "benchmarks.pipeline.spark:command"),
            "agent": Command("Decisions per second, alone and behind Kafka", "benchmarks.pipeline.agent:command"),
            "projector": Command("Records per second from Kafka into Redis", "benchmarks.pipeline.projector:command"),
            "recovery": Command("Start-up of the pipeline, and recovery from kill -9", "benchmarks.pipeline.recovery:command"),
            "threads": Command("How soon a thread that ended or hangs is noticed", "benchmarks.pipeline.threads:command"),
            "cost": Command("What a job costs: processor time and memory of each role", "benchmarks.pipeline.cost:command"),
        },
        "Reproduce a paper": {
            "placement": Command("The tables of the placement paper next to ours", "reproductions.placement.command:command"),
            "policies": Command("The tables and figures of the SURE paper next to ours", "reproductions.sure.commands:policies"),
        },
    },
    "Prints targets and published figures next to ours.",
)

DEV = Group(
    "Decide on one document, measure, write reference pages",
    {
        "Decide on one document": {
            "gate": Command("Run one gate over a list of events", "surescale.rescaler.cli.gate:command"),
            "place": Command("Choose hosts for a job's subtasks by cost and load", "surescale.rescaler.cli.place:command"),
            "reschedule": Command("Plan one reschedule of a cluster", "surescale.rescaler.cli.reschedule:command"),
            "assign": Command("Decide one round of learner assignment", "surescale.rescaler.cli.assign:command"),
        },
        "In a checkout": {
            "bench": BENCH,
            "reference": Command("Write the reference pages from the code", f"{_TOOLS}.reference.command:command"),
        },
    },
)

ROOT = Group(
    "Keep streaming jobs at the right size while they run",
    {
        "Start": {
            "init": Command(
                "Write the file from which `surescale up` starts everything", "surescale.services.init.command:command"
            ),
            "up": Command(
                "Run all roles against an existing Kafka, Redis and engine", "surescale.services.local_stack.up_command:command"
            ),
            "demo": Command(
                "Run everything on this machine, with a simulated engine", "surescale.services.local_stack.demo_command:command"
            ),
            "doctor": Command("Check what a pipeline needs, and say what to do", "surescale.services.doctor.command:command"),
        },
        "Operate": {
            "job": JOB,
            "cluster": CLUSTER,
            "policy": POLICY,
            "recording": RECORDING,
            "topics": Command("List, create or authorise topics, or skip a record", f"{_TOOLS}.topics:command"),
            "workers": Command(
                "Show, stop or start the worker processes on this machine", "surescale.engines.processes.command:command"
            ),
        },
        "Deploy and develop": {"run": RUN, "dev": DEV},
    },
    "`surescale COMMAND --help` explains a command.",
)

LOOKS = ("get", "list", "ls", "ps", "status", "describe", "show", "top", "info", "state", "jobs")
OTHER_WORDS = {
    **dict.fromkeys(LOOKS, "`surescale job list` shows all jobs, `surescale job show JOB` one"),
    **dict.fromkeys(("log", "logs"), "`surescale workers list` names the log of each worker, `surescale up` those of the roles"),
    **dict.fromkeys(("why", "events"), "`surescale job decisions JOB` lists decisions, `surescale job explain JOB` says why"),
    **dict.fromkeys(("edit", "scale", "config"), "`surescale job set JOB` changes what is allowed for a job"),
    **dict.fromkeys(
        ("start", "serve"), "`surescale up` runs all roles, `surescale run` some of them, `surescale demo` a demonstration"
    ),
    **dict.fromkeys(
        ("profile", "context", "env"),
        "addresses stand in `surescale.toml` of this folder, or in the file of SURESCALE_FILE; `surescale init` writes one",
    ),
    "help": "`surescale COMMAND --help` explains a command",
    "version": "`surescale --version` shows the version",
    **dict.fromkeys(("stop", "down"), "Ctrl-C ends `surescale up`; `surescale job pause JOB` leaves a job as it is"),
}
"""What words do here that are commands of other tools."""

EXTRAS = {
    "aiohttp": "http",
    "aws_msk_iam_sasl_signer": "msk",
    "botocore": "msk",
    "confluent_kafka": "kafka",
    "cramjam": "agent",
    "faust": "agent",
    "google": "keda",
    "grpc": "keda",
    "matplotlib": "evidence",
    "onnx": "train",
    "onnxruntime": "onnx",
    "opentelemetry": "telemetry",
    "pandas": "spark",
    "psutil": "local",
    "pyarrow": "spark",
    "pyspark": "spark",
    "redis": "redis",
    "scipy": "placement",
    "sklearn": "evidence",
    "torch": "train",
    "torch_geometric": "train",
}
"""The extra of `pip install 'surescale[EXTRA]'` that brings each module."""
