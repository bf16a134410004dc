"""Decides on one window: asks the policy, falls back on a rule, rounds, applies the guardrails and explains the result.

A decision depends on window, policy package, settings and seed alone. It uses no clock and no memory, and its bytes never vary.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import get_args

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, FeatureDrift, LoadOutlook, Overload, PolicyUsed, SampledMinute, TaskDecision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_labels import in_force, unreadable
from surescale.contracts.job_limits import (
    answers_emergencies,
    in_periods,
    is_simulated,
    minimum_within,
    minutes_known_min,
    owners_maximum,
    restart_ahead_ms,
    span_ahead_ms,
)
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.limits_in_words import in_periods_in_words
from surescale.contracts.messages import REMARK_LETTERS_MAX, ReleaseTarget, Sentence
from surescale.contracts.plurals import counted
from surescale.contracts.steps import Timed, untimed
from surescale.contracts.windows import FIGURE, Window
from surescale.policies.answer import Answer, Float64, NotReady, PolicyFailed, RawAnswer
from surescale.policies.dealt import carried, larger
from surescale.policies.emergency import Emergency, emergency_of, may_gather, present_need, restless_of
from surescale.policies.fullest import behind_in_words, coarse_in_words, full_in_words, short_in_words
from surescale.policies.graph import Int64
from surescale.policies.guardrails import Proposal, Situation, guard, situation
from surescale.policies.headline import headline
from surescale.policies.idle_members import idle_in_words, useful_of
from surescale.policies.latency_budget import budget_of, spent, unkeepable_in_words
from surescale.policies.latency_budget import in_words as budget_in_words
from surescale.policies.measure import mean_of_last, waiting_told
from surescale.policies.memory import cramped_of, held_in_words
from surescale.policies.policy import Policy, ask, is_span_end
from surescale.policies.question import Question
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.sizing import CALIBRATED
from surescale.policies.trial import trial_of
from surescale.policies.unknown import unknown_in_words
from surescale.policies.witness import Doubt, doubts_of, words_for

LOAD_MINUTES = 5  # over which the reported load and each task's records are averaged
WANTED_MAX = 2**53  # a ``Count``
REASON_MAX: int = get_args(Sentence)[1].max_length  # readers refuse a decision with a longer reason
HINDRANCE_MAX = 500
OWN_WORDS_LEAST = 100  # letters of the reason that the policy's own words keep, however much else there is to say


@dataclass(frozen=True, slots=True)
class _PolicyAnswer:
    answer: RawAnswer | NotReady
    used: PolicyUsed
    floor_applies: bool
    drift: FeatureDrift | None = None  # of the policy asked, also where the rule answered


def decide_if_due(
    window: Window,
    policy: Policy,
    settings: JobSettings,
    *,
    seed: int,
    asked: str | None = None,
    release: ReleaseTarget | None = None,
    timed: Timed = untimed,
    span_minutes: int | None = None,
) -> Decision | None:
    """Return the decision at the end of a span, else an act that cannot wait for it; None: nothing is due.

    An emergency cannot wait, and neither can a period that is about to begin with a minimum that nothing has prepared yet.

    Parameters and errors as of ``decide``. ``span_minutes``: other than the policy's own.
    """
    if is_span_end(window.window_end_ms, span_minutes or policy.span_minutes):
        return decide(window, policy, settings, seed=seed, asked=asked, release=release, timed=timed)
    allowed = in_force(settings, window.topology.labels)
    heeds_emergencies = (
        policy.floor_applies and answers_emergencies(allowed, window.topology.engine) and may_gather(window.figures)
    )
    if not heeds_emergencies and not allowed.minimum_within:
        return None
    with timed("measure", window.id):
        question = Question.of(window, settings, seed)
    emergency = emergency_of(question) if heeds_emergencies else None
    is_trying = heeds_emergencies and trial_of(question, is_asked=False).back.any()
    if emergency is None and not is_trying and not _is_about_to_begin(question):
        return None
    used = PolicyUsed(name=policy.name, sha256=policy.sha256, asked=asked or policy.name, release=release)
    as_it_is = RawAnswer(question.current, "Decided before the end of the span.")
    with timed("guardrails", window.id):
        as_answered = _PolicyAnswer(as_it_is, used, floor_applies=policy.floor_applies)
        decision = _decision(question, as_answered, emergency, asked or policy.name, between_spans=True)
    return decision if decision.action == "act" else None


def _is_about_to_begin(question: Question) -> bool:
    """Return whether a period begins soon in which a task must have more than it has, and a restart takes until then."""
    topology, settings, limits = question.window.topology, question.settings, question.limits
    at_ms = question.window.window_end_ms
    within = minimum_within(settings, at_ms, restart_ahead_ms(settings, topology.restart_ms))
    if within <= minimum_within(settings, at_ms) or question.window.minutes_known < minutes_known_min(settings):
        return False
    free = question.graph.scalable if limits.pinned is None else question.graph.scalable & ~limits.pinned
    return bool((free & (question.current < np.minimum(within, limits.most))).any())


def decide(
    window: Window,
    policy: Policy,
    settings: JobSettings,
    *,
    seed: int,
    asked: str | None = None,
    release: ReleaseTarget | None = None,
    timed: Timed = untimed,
) -> Decision:
    """Return what to do with one job at the end of a span.

    ``asked`` is the policy named by settings or release, if it differs from ``policy``; where ``policy`` fails, target
    utilisation takes over. ``release`` is the one that chose ``policy``, if one did. ``timed`` hears of the parts: measure,
    policy, guardrails.

    Raises:
        RecordRejected: the window's topology has a cycle.
    """
    named = asked or policy.name
    with timed("measure", window.id):
        question = Question.of(window, settings, seed)
    with timed("policy", window.id):
        answered = _ask(question, policy, named, release)
    with timed("guardrails", window.id):
        return _decision(question, answered, emergency_of(question) if answered.floor_applies else None, named)


def _decision(
    question: Question, answered: _PolicyAnswer, emergency: Emergency | None, asked: str, *, between_spans: bool = False
) -> Decision:
    window, graph, current = question.window, question.graph, question.current
    is_undecided = between_spans or isinstance(answered.answer, NotReady)
    seen = situation(question.measured, graph, current, question.limits.busy_most)
    seen = replace(_with_emergency(seen, question, answered, emergency), cramped=cramped_of(question))
    restless = restless_of(question)
    trial = trial_of(question, is_asked=answered.floor_applies and not is_undecided)
    at_once = np.maximum(restless.wanted, trial.back)
    if answered.floor_applies and at_once.any():
        urgent = at_once if seen.urgent is None else np.maximum(seen.urgent, at_once)
        seen = replace(seen, overloaded=seen.overloaded | (at_once > 0), urgent=urgent)
    load = float(mean_of_last(question.measured.load, LOAD_MINUTES))
    if isinstance(answered.answer, NotReady):
        ratios, proposed = np.ones(len(current)), current
        looked_at: tuple[tuple[SampledMinute, ...], ...] = ()
    else:
        proposed = np.where(graph.scalable, answered.answer.wanted, current)
        trial = replace(trial, fewer=np.where(proposed == current, trial.fewer, 0))
        proposed = np.where(trial.fewer > 0, trial.fewer, proposed)
        if answered.floor_applies:
            proposed = np.minimum(proposed, useful_of(question))
        ratios = _ratios(answered.answer, proposed, seen)
        seen = replace(seen, leap=answered.answer.leap)
        looked_at = answered.answer.looked_at
    is_unready = isinstance(answered.answer, NotReady) and emergency is None
    if is_unready:
        outcome = Proposal(desired=current, amendments=tuple(() for _ in current))
    else:
        outcome = guard(proposed, seen, question.limits, floor_applies=answered.floor_applies)
    doubts: tuple[Doubt, ...] = ()
    budget = budget_of(question)
    would_shrink = (outcome.desired < current).any() or bool(_held(outcome))
    if would_shrink and (doubts := (*doubts_of(question), *spent(question, budget))):
        seen = _with_doubts(seen, doubts)
        outcome = guard(proposed, seen, question.limits, floor_applies=answered.floor_applies)
    acts = bool((outcome.desired != current).any())
    figures = _Figures.of(question)
    outlook = answered.answer.outlook if isinstance(answered.answer, RawAnswer) else None
    compared = answered.answer.compared if isinstance(answered.answer, RawAnswer) else None
    facts = _Facts(
        _headline(question, outcome.desired, figures, load, outlook),
        _overload_in_words(question, emergency),
        unknown_in_words(question, restless.tasks, trial),
        held_in_words(question, outcome)
        or _hindrance(question)
        or _held_at_limit(question, seen, outcome.desired)
        or short_in_words(question)
        or idle_in_words(question, outcome.desired)
        or full_in_words(question, outcome.desired <= current)
        or behind_in_words(question, outcome.desired == current)
        or coarse_in_words(question, outcome.desired == current),
        _above_limits(question, seen, outcome.desired),
        _doubt_in_words(question, doubts, outcome),
        unkeepable_in_words(question) or budget_in_words(budget, compared),
        "" if is_unready else _periods_in_words(question, seen, outcome.desired),
        _labels_in_words(window.topology.labels),
        _amended_by(outcome, is_emergency=emergency is not None or bool(at_once.any())),
    )
    return Decision(
        decision_id=decision_id(window.job, window.window_end_ms, asked),
        job=window.job,
        span_end_ms=window.window_end_ms,
        window_id=window.id,
        policy=answered.used,
        seed=question.seed,
        settings_version=question.settings.version,
        topology_version=window.topology.version,
        action="act" if acts else "hold",
        reason=_sentence(answered.answer, facts),
        completeness=window.completeness,
        minutes_known=window.minutes_known,
        tasks=_task_decisions(seen, ratios, proposed, outcome, looked_at, figures),
        load_records_per_minute=load if np.isfinite(load) else None,
        closed_append_ms=window.closed_append_ms,
        reached_wall_ms=window.reached_wall_ms,
        compared=compared,
        outlook=outlook,
        emergency=None if emergency is None else _overload(question, emergency),
        drift=answered.drift,
        undecided=is_undecided and not is_simulated(window.topology.engine),
        figures_until_ms=window.figures_until_ms,
        budget=budget,
    )


def _with_doubts(seen: Situation, doubts: tuple[Doubt, ...]) -> Situation:
    """Return the situation in which no task shrinks where one of the doubts holds."""
    unproven = [doubt.tasks for doubt in doubts] + ([] if seen.unproven is None else [seen.unproven])
    return replace(seen, unproven=np.logical_or.reduce(unproven))


def _held(outcome: Proposal) -> list[int]:
    """Return the tasks that ``unproven`` kept from shrinking."""
    return [at for at, made in enumerate(outcome.amendments) if any(amendment.rule == "unproven" for amendment in made)]


def _doubt_in_words(question: Question, doubts: tuple[Doubt, ...], outcome: Proposal) -> str:
    return words_for(doubts, _held(outcome), [spec.label or spec.task for spec in question.window.topology.tasks])


def _with_emergency(seen: Situation, question: Question, answered: _PolicyAnswer, emergency: Emergency | None) -> Situation:
    """Return the situation with what tasks need at once; nothing shrinks while too little is known to ask a policy."""
    if emergency is not None:
        overloaded = seen.overloaded | (emergency.wanted > seen.current)
        return replace(seen, overloaded=overloaded, urgent=np.where(seen.graph.scalable, emergency.wanted, 0))
    if isinstance(answered.answer, NotReady) or not answered.floor_applies:
        return seen
    least = present_need(question, looks_ahead=answered.answer.outlook is not None)
    return replace(seen, urgent=least) if least.any() else seen


def _overload(question: Question, emergency: Emergency) -> Overload:
    task = question.graph.tasks[emergency.task]
    return Overload(
        task=task,
        load_records_per_minute=round(emergency.load, 1),
        grown_records=round(emergency.grown_records, 1),
    )


def _overload_in_words(question: Question, emergency: Emergency | None) -> str:
    if emergency is None:
        return ""
    spec = question.window.topology.tasks[emergency.task]
    return (
        f"Emergency: {emergency.grown_records:,.0f} more records wait for {spec.label or spec.task} than a minute ago; "
        f"at least {emergency.load:,.0f} a minute come now."
    )


def _ask(question: Question, policy: Policy, asked: str, release: ReleaseTarget | None) -> _PolicyAnswer:
    """Return the policy's answer or, if it fails, that of a rule: target utilisation."""
    tasks = len(question.current)
    answer = _checked(ask(policy, question), tasks)
    if not isinstance(answer, PolicyFailed):
        used = PolicyUsed(name=policy.name, sha256=policy.sha256, asked=asked, release=release)
        return _PolicyAnswer(answer, used, policy.floor_applies, answer.drift if isinstance(answer, RawAnswer) else None)
    rule = TargetUtilisation()
    instead = _checked(ask(rule, question), tasks)
    assert not isinstance(instead, PolicyFailed), f"the fallback rule failed too: {instead.reason}"
    used = PolicyUsed(
        name=rule.name, sha256=rule.sha256, asked=asked, fallback_reason=answer.reason[:REMARK_LETTERS_MAX], release=release
    )
    return _PolicyAnswer(instead, used, rule.floor_applies, answer.drift)


def _checked(answer: Answer, tasks: int) -> Answer:
    """Return the answer, or a failure where it is not one whole number of subtasks per task."""
    if not isinstance(answer, RawAnswer):
        return answer
    wanted = answer.wanted
    if wanted.shape != (tasks,):
        return PolicyFailed(f"the policy answered {wanted.shape} sizes for {tasks} tasks")
    if not np.issubdtype(wanted.dtype, np.signedinteger):
        return PolicyFailed("the policy answered a size that is not a whole number")
    if (wanted < 0).any() or (wanted > WANTED_MAX).any():
        return PolicyFailed("the policy answered a size below 0 or beyond all bounds")
    ratios = answer.ratios
    if ratios is not None and (ratios.shape != (tasks,) or not np.isfinite(ratios).all()):
        return PolicyFailed("the policy answered a ratio that is not a number")
    if answer.looked_at and len(answer.looked_at) != tasks:
        return PolicyFailed(f"the policy explained {len(answer.looked_at)} of {tasks} tasks")
    if answer.leap is not None and any(each.shape != (tasks,) for each in answer.leap):
        return PolicyFailed("the policy allowed leaps of other tasks than the job has")
    if not all(map(math.isfinite, _reported_numbers(answer))):  # readers would refuse the whole decision
        return PolicyFailed("the policy explained its answer with a figure that is not a number")
    return answer


def _reported_numbers(answer: RawAnswer) -> Iterator[float]:
    """Return the numbers that an answer gives people: its scores, what it expects and saw, and the weights of that."""
    compared, seen = answer.compared, list(chain.from_iterable(answer.looked_at))
    scores = (compared.score, compared.present_score, compared.gain_needed) if compared else ()
    late = compared.candidates.late_minutes if compared and compared.candidates else ()
    expected = (*answer.outlook.means, *answer.outlook.spread) if answer.outlook else ()
    drift = answer.drift
    features = (drift.outside, drift.usual, drift.feature_outside, drift.mean, drift.low, drift.high) if drift else ()
    return chain(
        scores,
        late,
        expected,
        features,
        [each.weight for each in seen],
        chain.from_iterable([each.neighbour_weights for each in seen]),
    )


def _ratios(answer: RawAnswer, proposed: Int64, seen: Situation) -> Float64:
    """Return what each task [N] was to be multiplied by: the policy's own ratios, or those that its sizes mean."""
    derived: Float64 = proposed / seen.current
    return derived if answer.ratios is None else np.where(seen.graph.scalable, answer.ratios, 1.0)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What a decision tells of each task [N], over its last known minutes: NaN where unknown."""

    records_per_minute: Float64
    utilisation: Float64
    waiting_records: Float64

    @classmethod
    def of(cls, question: Question) -> "_Figures":
        records, busy_ms, subtasks = (
            question.figures[..., FIGURE[name]].astype(np.float64).T for name in ("records_in", "busy_ms", "parallelism")
        )
        offered = np.where(subtasks > 0, subtasks * MINUTE_MS, np.nan)
        return cls(
            records_per_minute=mean_of_last(records, LOAD_MINUTES),
            utilisation=np.clip(mean_of_last(busy_ms / offered, LOAD_MINUTES), 0.0, 1.0),
            waiting_records=np.where(waiting_told(question.figures, question.graph), question.measured.waiting_records, np.nan),
        )


def _hindrance(question: Question) -> str:
    """Return why some task cannot have another size, or more subtasks of it would not help; empty if they would."""
    specs = question.window.topology.tasks
    why = [(spec, why) for words in ("fixed", "hindrance") for spec in specs if (why := getattr(spec, words))]
    told = next((f"{spec.label or spec.task}: {why}." for spec, why in why), "")
    return told or _broadcast_in_words(question)


def _broadcast_in_words(question: Question) -> str:
    """Return why a task that is busier than it should be keeps its size, if it is for its broadcast records; else nothing."""
    measured = question.measured
    if measured.undivided is None:
        return ""
    exact = measured.demand(mean_of_last(measured.load, LOAD_MINUTES)) / CALIBRATED.utilisation
    stuck = question.graph.scalable & (exact > question.current) & np.isnan(measured.divided(exact))  # False where unknown
    if not stuck.any():
        return ""
    spec, share = question.window.topology.tasks[int(np.argmax(stuck))], measured.undivided.share[np.argmax(stuck)]
    return (
        f"{spec.label or spec.task}: {share:.0%} of its records come over a broadcast edge, each to every subtask, so more "
        "subtasks would have as much to do; give it fewer records or make each cheaper."
    )


def _held_at_limit(question: Question, seen: Situation, desired: Int64) -> str:
    """Return which limit keeps an overloaded task from a size that carries more, and what changes it; empty if none does."""
    limits, topology, dealt = question.limits, question.window.topology, question.graph.deal
    if is_simulated(topology.engine):
        return ""
    free = seen.graph.scalable if limits.pinned is None else seen.graph.scalable & ~limits.pinned
    wider = larger(desired, dealt)
    held = free & seen.overloaded & (wider > limits.most) & (carried(wider, dealt) > carried(desired, dealt))
    for task in np.flatnonzero(held).tolist():
        spec, most = topology.tasks[task], int(limits.most[task])
        if owners_maximum(question.settings, spec, topology.engine) is None and most >= spec.max_parallelism:
            continue  # the engine's own maximum, which no option lifts
        return (
            f"{spec.label or spec.task} needs more, but the next size that carries more is {int(wider[task])} and at most {most} "
            "are allowed; --max changes that."
        )
    return ""


def _labels_in_words(labels: Mapping[str, str]) -> str:
    """Return which of the job's labels cannot be read, empty if all can."""
    problems = unreadable(labels)
    return f"{problems[0][0].upper()}{problems[0][1:]}." if problems else ""


def _above_limits(question: Question, seen: Situation, desired: Int64) -> str:
    """Return why a task, or the job, gets more than its owner allows; empty if none does."""
    limits, specs = question.limits, question.window.topology.tasks
    free = seen.graph.scalable if limits.pinned is None else seen.graph.scalable & ~limits.pinned
    above = np.flatnonzero(free & (desired > limits.most)).tolist()
    words = []
    if above:
        task, others = above[0], len(above) - 1
        more = f" So {'does' if others == 1 else 'do'} {counted(others, 'more task')}." if others else ""
        size, why = int(desired[task]), _why_kept(seen, desired, above[0])
        words.append(
            f"{specs[task].label or specs[task].task} gets {size}, above its maximum of {int(limits.most[task])}: {why}.{more}"
        )
    total = int(desired[seen.graph.scalable].sum())
    if total > limits.total:
        widest = int(np.argmax(np.where(free, desired, 0)))
        words.append(f"The job gets {total}, above its total of {limits.total}: {_why_kept(seen, desired, widest)}.")
    return " ".join(words)


def _periods_in_words(question: Question, seen: Situation, desired: Int64) -> str:
    """Return what the owner's periods decide of these sizes, and until when; empty if they decide nothing of them."""
    topology, limits = question.window.topology, question.limits
    at_ms = question.window.window_end_ms
    found = in_periods(question.settings, at_ms, span_ahead_ms(question.settings, topology.restart_ms))
    free = seen.graph.scalable if limits.pinned is None else seen.graph.scalable & ~limits.pinned
    if found.least is not None and not (free & (desired <= found.least.least)).any():
        found = found._replace(least=None)
    if found.most is not None and found.most.most is not None and not (free & (desired >= found.most.most)).any():
        found = found._replace(most=None)
    words = in_periods_in_words(found, at_ms)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _why_kept(seen: Situation, desired: Int64, task: int) -> str:
    if desired[task] <= seen.floor[task]:
        return "its measured load needs them"
    return "it goes there a step at a time" if desired[task] < seen.current[task] else "it must not shrink now"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a decision's reason says beside the policy's own words, in its order; empty where there is nothing to say.

    What an operator knows and can do comes first: the headline, an overload, what is unknown, and what keeps a size from helping.
    """

    headline: str
    overload: str
    unknown: str
    hindrance: str
    above: str
    doubt: str
    budget: str
    periods: str
    labels: str
    amended: str


def _sentence(answer: RawAnswer | NotReady, facts: _Facts) -> str:
    """Return the reason: what happened and what to do in figures that an operator knows, then the policy's own words."""
    if isinstance(answer, NotReady):
        missing = answer.missing_minutes
        said = f"Not ready: {counted(missing, 'more minute')} of figures {'is' if missing == 1 else 'are'} needed."
        if not facts.overload:
            return said
    else:
        said = answer.reason or "The policy gave no reason."
    told = (
        facts.headline, facts.overload, facts.unknown, facts.hindrance, facts.above, facts.doubt, facts.budget, facts.periods,
        facts.labels,
    )  # fmt: skip
    last = f" {facts.amended}" if facts.amended else ""
    first = " ".join(_shortened(each, HINDRANCE_MAX) for each in told if each)
    first = _shortened(first, REASON_MAX - len(last) - OWN_WORDS_LEAST)
    return f"{first} {_shortened(said, REASON_MAX - len(first) - 1 - len(last))}{last}"


def _headline(question: Question, desired: Int64, figures: _Figures, load: float, outlook: LoadOutlook | None) -> str:
    names = [spec.label or spec.task for spec in question.window.topology.tasks]
    told = (figures.utilisation, figures.waiting_records)
    return headline(names, question.graph.scalable, (question.current, desired), told, load, outlook)


def _amended_by(outcome: Proposal, *, is_emergency: bool) -> str:
    """Return which guardrails changed something. Without an emergency, ``emergency`` keeps what the last minutes need."""
    rules = sorted({amendment.rule for amendments in outcome.amendments for amendment in amendments})
    names = [rule if rule != "emergency" or is_emergency else "the load of the last minutes" for rule in rules]
    return f"Amended by {', '.join(names)}." if names else ""


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _task_decisions(
    seen: Situation,
    ratios: Float64,
    proposed: Int64,
    outcome: Proposal,
    looked_at: tuple[tuple[SampledMinute, ...], ...],
    figures: _Figures,
) -> tuple[TaskDecision, ...]:
    busy = np.where(seen.graph.scalable, figures.utilisation, np.nan)
    columns = (seen.current, ratios, proposed, outcome.desired, seen.floor, seen.overloaded)
    return tuple(
        TaskDecision(
            task=task,
            current=current,
            ratio=ratio,
            proposed=wanted,
            desired=desired,
            floor=floor,
            amendments=amendments,
            looked_at=looked,
            overloaded=overloaded,
            records_per_minute=records,
            utilisation=utilisation,
            waiting_records=waiting,
        )
        for task, amendments, looked, current, ratio, wanted, desired, floor, overloaded, records, utilisation, waiting in zip(
            seen.graph.tasks,
            outcome.amendments,
            looked_at or repeat(()),
            *(column.tolist() for column in columns),
            map(_known, figures.records_per_minute.tolist()),
            map(_six_digits, busy.tolist()),
            map(_six_digits, figures.waiting_records.tolist()),
            strict=False,
        )
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _six_digits(value: float) -> float | None:
    """Return a figure for people with six digits, which is enough for them and keeps the record short."""
    return round(value, 6) if math.isfinite(value) else None
