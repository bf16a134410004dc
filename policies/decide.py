"""Window in, decision out: the policy asked, the rule as its stand-in, rounding, guardrails, and the sentence for people.

A decision is a function of (window, policy package, settings, seed): no clock, no memory, the same bytes every time.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from contracts.ids import decision_id
from contracts.messages import Decision, JobSettings, LookedAt, PolicyUsed, Sentence, TaskDecision
from contracts.rounding import round_half_up
from contracts.windows import Window
from policies.graph import job_graph
from policies.guardrails import Proposal, Situation, guard, situation
from policies.measure import mean_of_last, measure
from policies.policy import Policy
from policies.proposal import RATIO_MAX, Answer, Float64, NotReady, PolicyFailed, RawAnswer
from policies.rules.reading import MINUTES_KNOWN_MIN
from policies.rules.target_utilisation import TargetUtilisation

LOAD_MINUTES = 5  # of the load that a decision reports
REASON_MAX: int = get_args(Sentence)[1].max_length  # a longer reason would have the decision refused by its readers


@dataclass(frozen=True, slots=True)
class _Answered:
    answer: RawAnswer | NotReady
    used: PolicyUsed
    floor_applies: bool


def decide(
    window: Window, policy: Policy, settings: JobSettings, *, seed: int, asked: str | None = None, rule: Policy | None = None
) -> Decision:
    """Return what to do with one job at the end of a span.

    ``asked`` is the policy that settings or release named, if it differs from ``policy``; ``rule`` takes over when ``policy``
    fails (default: target utilisation).

    Raises:
        RecordRejected: the window's topology has a cycle.
    """
    graph = job_graph(window.topology.tasks)
    current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
    measured = measure(window.figures, graph)
    seen = situation(measured, graph, current)
    answered = _ask(window, policy, settings, seed, asked or policy.name, rule or TargetUtilisation())
    load = float(mean_of_last(measured.load, LOAD_MINUTES))
    if isinstance(answered.answer, NotReady):
        ratios, proposed = np.ones(len(current)), current
        outcome = Proposal(desired=current, amendments=tuple(() for _ in current))
        looked_at: tuple[tuple[LookedAt, ...], ...] = ()
    else:
        ratios = np.where(graph.scalable, answered.answer.ratios, 1.0)
        proposed = np.array([round_half_up(p * ratio) for p, ratio in zip(current, ratios, strict=True)], dtype=np.int64)
        outcome = guard(proposed, seen, settings, floor_applies=answered.floor_applies)
        looked_at = answered.answer.looked_at
    acts = bool((outcome.desired != current).any())
    return Decision(
        decision_id=decision_id(window.job, window.window_end_ms, asked or policy.name),
        job=window.job,
        span_end_ms=window.window_end_ms,
        window_id=window.id,
        policy=answered.used,
        seed=seed,
        settings_version=settings.version,
        topology_version=window.topology.version,
        action="act" if acts else "hold",
        reason=_sentence(answered.answer, outcome, seen, acts),
        completeness=window.completeness,
        minutes_known=window.minutes_known,
        tasks=_task_decisions(seen, ratios, proposed, outcome, looked_at),
        load_records_per_minute=load if np.isfinite(load) else None,
        closed_append_ms=window.closed_append_ms,
        reached_wall_ms=window.reached_wall_ms,
    )


def _ask(window: Window, policy: Policy, settings: JobSettings, seed: int, asked: str, rule: Policy) -> _Answered:
    missing = MINUTES_KNOWN_MIN - window.minutes_known
    if missing > 0:
        used = PolicyUsed(name=policy.name, sha256=policy.sha256, asked=asked)
        return _Answered(NotReady(missing_minutes=missing), used, policy.floor_applies)
    answer = _checked(policy.answer(window, settings, seed), len(window.topology.tasks))
    if not isinstance(answer, PolicyFailed):
        return _Answered(answer, PolicyUsed(name=policy.name, sha256=policy.sha256, asked=asked), policy.floor_applies)
    instead = _checked(rule.answer(window, settings, seed), len(window.topology.tasks))
    assert not isinstance(instead, PolicyFailed), f"the rule that stands in has failed as well: {instead.reason}"
    used = PolicyUsed(name=rule.name, sha256=rule.sha256, asked=asked, fallback_reason=answer.reason)
    return _Answered(instead, used, rule.floor_applies)


def _checked(answer: Answer, tasks: int) -> Answer:
    """Turn an answer that cannot be meant into a failure: no policy is trusted beyond (0, 2]."""
    if not isinstance(answer, RawAnswer):
        return answer
    ratios: Float64 = answer.ratios
    if ratios.shape != (tasks,):
        return PolicyFailed(f"the policy answered {ratios.shape} ratios for {tasks} tasks")
    if not np.isfinite(ratios).all():
        return PolicyFailed("the policy answered a ratio that is not a number")
    if (ratios <= 0).any() or (ratios > RATIO_MAX).any():
        return PolicyFailed(f"the policy answered a ratio outside (0, {RATIO_MAX:g}]")
    if answer.looked_at and len(answer.looked_at) != tasks:
        return PolicyFailed(f"the policy explained {len(answer.looked_at)} of {tasks} tasks")
    return answer


def _sentence(answer: RawAnswer | NotReady, outcome: Proposal, seen: Situation, acts: bool) -> str:
    if isinstance(answer, NotReady):
        return f"Not ready: {answer.missing_minutes} more minutes of figures are needed."
    words = []
    rules = sorted({amendment.rule for amendments in outcome.amendments for amendment in amendments})
    if rules:
        words.append(f"Amended by {', '.join(rules)}.")
    if acts:
        before = int(seen.current[seen.graph.scalable].sum())
        after = int(outcome.desired[seen.graph.scalable].sum())
        changed = int((outcome.desired != seen.current).sum())
        words.append(f"{changed} of {len(seen.current)} tasks change, {before} subtasks become {after}.")
    facts = "".join(f" {word}" for word in words)
    return _shortened(answer.reason or "The policy gave no reason.", REASON_MAX - len(facts)) + facts


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _task_decisions(
    seen: Situation,
    ratios: Float64,
    proposed: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    outcome: Proposal,
    looked_at: tuple[tuple[LookedAt, ...], ...],
) -> tuple[TaskDecision, ...]:
    return tuple(
        TaskDecision(
            task=task,
            current=int(seen.current[i]),
            ratio=float(ratios[i]),
            proposed=int(proposed[i]),
            desired=int(outcome.desired[i]),
            floor=int(seen.floor[i]),
            amendments=outcome.amendments[i],
            looked_at=looked_at[i] if looked_at else (),
        )
        for i, task in enumerate(seen.graph.tasks)
    )
