"""The commands that `surescale --help` and `surescale bench --help` list, in groups, with a line each.

Static, so that help imports no room. A test compares names and lines with the commands themselves.
"""

COMMANDS = {
    "Run the roles": {
        "monitor": "Publish an engine's samples, topology and events to Kafka",
        "spark": "Assemble each job's rolling windows from task metrics",
        "agent": "Answer windows with decisions, until stopped",
        "rescaler": "Carry out the decisions made for one cluster",
        "engine": "Simulate an engine that runs jobs under a load",
        "state-service": "Keep the view of all jobs in Redis and serve it over HTTP",
        "serve": "Run several roles in one process, until stopped",
    },
    "Look": {
        "state": "Show all jobs, or one with its tasks and latest decision",
        "decisions": "Show a job's latest decisions and what became of them",
        "cluster": "Show a cluster's workers, their units, and the tasks on them",
        "explain": "Explain why a decision was made and what followed",
        "topics": "List, create or authorise topics, or skip a record",
        "health": "Check that a role is alive and ready",
        "doctor": "Check what a pipeline needs, and say what to do",
    },
    "Steer": {
        "job": "Show and change what is allowed for a job",
        "pause": "Stop rescales of a job, or of all jobs of a cluster",
        "resume": "End a pause of a job, or of a cluster",
        "approve": "Carry out what was advised for a job in mode advise",
        "workers": "Show, stop or start the worker processes on this machine",
        "policy": "List, check, try, release and roll back policies",
        "tournament": "Release to a job what would have served its last days best",
        "init": "Write the file from which `surescale up` starts everything",
        "up": "Run all roles against an existing Kafka, Redis and engine",
        "demo": "Run everything on this machine, with a simulated engine",
    },
    "Work offline": {
        "gate": "Run one gate over a list of events",
        "place": "Choose hosts for a job's subtasks by cost and load",
        "reschedule": "Plan one reschedule of a cluster",
        "assign": "Decide one round of learner assignment",
        "jobs": "List the jobs and workloads that are shipped",
        "evaluate": "Judge policies on a job under a workload, in the simulator",
        "calibrate": "Fit a world to a recorded job, for evaluate",
        "what-if": "Try other policies or settings on a recorded job",
        "twin": "Run other policies on the jobs and trace of `engine`",
        "record": "Record topics or jobs to one file",
        "replay": "Let policies decide again on what was recorded",
    },
    "Make": {
        "train": "Train the policy SURE in the simulator",
        "export": "Export a training run as a model package",
        "bench": "Measure, or reproduce a published evaluation",
        "reference": "Write the reference pages from the code",
    },
}

_SHOWS = "`surescale state` shows all jobs, `surescale state JOB` one"
OTHER_WORDS = {
    **dict.fromkeys(("get", "list", "ls", "ps", "status", "describe", "show", "top"), _SHOWS),
    **dict.fromkeys(("log", "logs"), "`surescale workers list` names the log of each worker, `surescale up` those of the roles"),
    **dict.fromkeys(("why", "history", "events"), "`surescale decisions JOB` lists decisions, `surescale explain JOB` says why"),
    **dict.fromkeys(("set", "edit", "scale", "config"), "`surescale job set JOB` changes what is allowed for a job"),
    **dict.fromkeys(("start", "run"), "`surescale up` runs all roles, `surescale demo` a demonstration"),
    **dict.fromkeys(("stop", "down"), "Ctrl-C ends `surescale up`; `surescale pause JOB` leaves a job as it is"),
}
"""What words do here that are commands of other tools."""

BENCHMARKS = {
    "Measure pure parts": {
        "simulator": "Steps of the simulator per second",
        "gate": "One gate over a million events: time and memory",
        "reschedule": "Plans for 1,000 fragments on 1,000 parallel units",
        "assign": "Learner assignment of 100,000 tasks on 110 hosts",
        "rescale": "One rescale in three ways: restart, cold, learners",
        "inference": "Time and memory of one decision's network",
        "step": "How policies answer a step of the load",
        "tracing": "What traces cost an agent, off and on",
        "worlds": "Judge policies and the best constant in every world",
        "coverage": "Measure how often the load stays within the outlook's band",
        "margin": "Measure what other margins are worth, and if they can be learned",
        "tournament": "Judge winners of tournaments on the days that follow",
    },
    "Measure running roles": {
        "spark": "Throughput, lag and freshness of the Spark job",
        "agent": "Decisions per second, alone and behind Kafka",
        "projector": "Records per second from Kafka into Redis",
        "recovery": "Start-up of the pipeline, and recovery from kill -9",
        "cost": "What a job costs: processor time and memory of each role",
    },
    "Reproduce a paper": {
        "placement": "The tables of the placement paper next to ours",
        "policies": "The tables and figures of the SURE paper next to ours",
    },
}

EXTRAS = {
    "aiohttp": "http",
    "confluent_kafka": "kafka",
    "cramjam": "agent",
    "faust": "agent",
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
