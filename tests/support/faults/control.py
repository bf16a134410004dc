"""One decision a job and span, one last outcome each, commands in order, and a job that ends as the last command said.

Shares no code with the product.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.support.faults.findings import Findings
from tests.support.faults.recording import Topics
from tests.support.faults.wire import MINUTE_MS, ReadWindow, document, documents

ONE_DECISION = "one decision a job and span"
ONE_OUTCOME = "one last outcome a decision"
ORDER = "commands in order, each generation once"
ENDED = "each command ends once"
IN_TIME = "each command of an unhurt pipeline is carried out in time"
AS_DECIDED = "parallelism is that of the last decision"
LAST = ("held", "commanded", "superseded", "refused")
Documents = list[dict[str, Any]]


def check_control(
    topics: Topics, findings: Findings, windows: Sequence[ReadWindow], *, span_minutes: int, tail_minutes: int
) -> None:
    """Compare decisions, outcomes, commands, progress and topologies.

    Args:
        windows: as ``check_samples`` returns them.
        span_minutes: minutes between two decisions of a job.
        tail_minutes: what the end of the run may have cut short: a wait or a rescale that began so shortly before.
    """
    decisions = _decisions(topics, findings, windows, span_minutes)
    newest_ms = max((each.end_ms for each in windows), default=0)
    cut_ms = newest_ms - tail_minutes * MINUTE_MS
    events = [record.value for record in topics.records("reschedule-events")]
    outcomes, progress = documents(events, "outcome/1"), documents(events, "progress/1")
    _outcomes(findings, decisions, outcomes, cut_ms)
    commands = _commands(topics, findings)
    ends = _ends(findings, commands, progress, cut_ms)
    _parallelism(topics, findings, decisions, outcomes, commands, ends)


def check_in_time(topics: Topics, findings: Findings) -> None:
    """Expect of a pipeline that nothing happened to that no command ended because nobody carried it out in time."""
    for each in documents([record.value for record in topics.records("reschedule-events")], "progress/1"):
        if each["status"] in ("applied", "failed"):
            is_late = each.get("code") in ("NOT_REPORTED", "DEADLINE")
            findings.expect(not is_late, IN_TIME, each["command_id"], f"{each.get('code')}: {each.get('detail')}")


def open_commands(topics: Topics) -> set[str]:
    """Return the commands whose end was not reported yet."""
    events = documents([record.value for record in topics.records("reschedule-events")], "progress/1")
    ended = {each["command_id"] for each in events if each["status"] in ("applied", "failed")}
    return _commands(topics, Findings()).keys() - ended


def _decisions(topics: Topics, findings: Findings, windows: Sequence[ReadWindow], span_minutes: int) -> dict[str, dict[str, Any]]:
    """Return the decisions by id, the first of each."""
    by_id: dict[str, dict[str, Any]] = {}
    by_span: dict[tuple[str, int], set[str]] = defaultdict(set)
    for record in topics.records("decisions"):
        found = document(record.value)
        if found is None:
            continue
        first = by_id.setdefault(found["decision_id"], found)
        by_span[found["job"], found["span_end_ms"]].add(found["decision_id"])
        findings.expect(first == found, ONE_DECISION, found["decision_id"], "it was sent again with other contents")
    for (job, end_ms), ids in by_span.items():
        findings.expect(len(ids) == 1, ONE_DECISION, f"{job}@{end_ms}", f"decided {len(ids)} times: {sorted(ids)}")
    known = {each.id for each in windows}
    for each in by_id.values():
        findings.expect(each["window_id"] in known, ONE_DECISION, each["decision_id"], f"no window {each['window_id']}")
    for window in windows:
        if window.end_ms % (span_minutes * MINUTE_MS) == 0:
            findings.expect((window.job, window.end_ms) in by_span, ONE_DECISION, window.id, "nothing was decided")
    return by_id


def _outcomes(findings: Findings, decisions: dict[str, dict[str, Any]], outcomes: Documents, cut_ms: int) -> None:
    said: dict[str, Documents] = defaultdict(list)
    for outcome in outcomes:
        said[outcome["decision_id"]].append(outcome)
    for name, each in decisions.items():
        words = [outcome["status"] for outcome in said[name]]
        last = [word for word in words if word in LAST]
        in_time = each["span_end_ms"] <= cut_ms
        findings.expect(len(last) == 1 or (not last and not in_time), ONE_OUTCOME, name, f"its outcomes are {words}")
        findings.expect(not last or words[-1] in LAST, ONE_OUTCOME, name, f"something follows the last outcome: {words}")
        numbers = [outcome.get("sequence", 0) for outcome in said[name]]
        findings.expect(numbers == list(range(len(numbers))), ONE_OUTCOME, name, f"its outcomes are numbered {numbers}")
    for name in set(said) - set(decisions):
        findings.expect(False, ONE_OUTCOME, name, "an outcome of no decision")


def _commands(topics: Topics, findings: Findings) -> dict[str, dict[str, Any]]:
    """Return the commands by id, without mere advice."""
    by_id: dict[str, dict[str, Any]] = {}
    before: dict[str, tuple[int, int]] = {}
    for record in topics.records("reschedule-commands"):
        found = document(record.value)
        if found is None or found.get("advice"):
            continue
        name, at = found["command_id"], (found["desired_generation"], found["step"])
        findings.expect(name not in by_id, ORDER, name, "it was issued twice")
        generation, step = before.get(found["job"], (0, 0))
        follows = at in ((generation, step + 1), (generation + 1, 0))
        findings.expect(follows, ORDER, name, f"it follows generation {generation}, step {step}")
        by_id[name], before[found["job"]] = found, max(at, (generation, step))
    return by_id


def _ends(findings: Findings, commands: dict[str, dict[str, Any]], progress: Documents, cut_ms: int) -> dict[str, str]:
    """Return how each command ended: applied, failed, or not reported (then nobody knows whether the engine does it later)."""
    ends: dict[str, list[str]] = defaultdict(list)
    for each in progress:
        known = each["command_id"] in commands
        findings.expect(known, ENDED, each["command_id"], "progress of a command that nobody issued")
        if each["status"] in ("applied", "failed"):
            unheard = each.get("code") == "NOT_REPORTED"
            ends[each["command_id"]].append("not reported" if unheard else each["status"])
    for name, command in commands.items():
        in_time = command["issued_at_ms"] <= cut_ms
        findings.expect(len(ends[name]) == 1 or (not ends[name] and not in_time), ENDED, name, f"its ends are {ends[name]}")
    return {name: min(words) for name, words in ends.items() if words}


def _parallelism(
    topics: Topics,
    findings: Findings,
    decisions: dict[str, dict[str, Any]],
    outcomes: Documents,
    commands: dict[str, dict[str, Any]],
    ends: dict[str, str],
) -> None:
    last_said: dict[str, dict[str, Any]] = {}
    for record in topics.records("job-topology"):
        found = document(record.value)
        if found is not None:
            last_said[found["job"]] = found
    released = {each.get("command_id"): each["decision_id"] for each in outcomes if each["status"] == "commanded"}
    decided = {_generation(commands[name]): of for name, of in released.items() if name in commands}
    for job, topology in last_said.items():
        own = {name: each for name, each in commands.items() if each["job"] == job}
        commits = {each["desired_generation"]: name for name, each in own.items() if each.get("action", "commit") == "commit"}
        applied = [generation for generation, name in commits.items() if ends.get(name) == "applied"]
        # Both are judged by `_ends`.
        open_ones = [generation for generation, name in commits.items() if ends.get(name, "not reported") == "not reported"]
        runs_at = topology.get("generation", 0)
        if not applied and runs_at == 0:
            continue  # nobody has changed it
        allowed = {max(applied, default=0), *open_ones}
        findings.expect(runs_at in allowed, AS_DECIDED, job, f"the engine runs generation {runs_at}, applied were {applied}")
        last = own.get(commits.get(runs_at, ""))
        if last is None:
            continue
        runs = {task["task"]: task.get("parallelism", 1) for task in topology["tasks"]}
        wanted = {change["task"]: change["after"] for change in last["changes"]}
        decision = decisions.get(decided.get(_generation(last), ""))
        if decision is not None:
            wanted |= {task["task"]: task["desired"] for task in decision["tasks"]}
        differing = {task: (runs.get(task), width) for task, width in wanted.items() if runs.get(task) != width}
        findings.expect(not differing, AS_DECIDED, job, f"runs, and should: {differing}")


def _generation(command: dict[str, Any]) -> tuple[str, int]:
    return command["job"], command["desired_generation"]
