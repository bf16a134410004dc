"""The one active rescaler of a cluster, round by round.

A round reads what has arrived, asks the pure controller, and commits everything that follows in one transaction.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from surescale.contracts.commands import Progress
from surescale.contracts.decisions import OVERTAKEN_BY, Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import Cluster, cluster_of
from surescale.contracts.messages import Coordinates, DeadLetter, EngineEvent, dead_letter, key_of_letter
from surescale.contracts.wire import decode
from surescale.engines.ports.actuator import EngineApi
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.service.actuator import ActuatorThread
from surescale.rescaler.service.memory import remembered
from surescale.rescaler.service.pipeline_view import VIEWED, PipelineView
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.rescaler.service.traces import HandledDecision, Traces
from surescale.rescaler.service.transactions import Transactions
from surescale.runtime.kafka import LogReader
from surescale.runtime.kafka_transactions import TransactionLost
from surescale.runtime.topic_ids import LOOK_EVERY_S, TopicIds
from surescale.runtime.topic_records import headers_of, key_of
from surescale.runtime.tracing.context import GivenHeaders
from surescale.runtime.tracing.spans import NO_TRACER, Tracer

News = Progress | EngineEvent
"""What happened: taken once."""

TIME_DIGITS_MAX = 16
SEE_TIME_EVERY_S = 10.0  # while this machine's clock is apart: Kafka's may be the one that is set right
HOLD_BACK_S = 10.0  # longest wait for the report of a rescale's end, or for what had happened when the clock stopped


def activate(
    settings: RescalerSettings,
    members: Consumer,
    engine: EngineApi,
    status: Status,
    stop: threading.Event,
    log: logging.Logger,
    topics: TopicIds,
    *,
    transactions: type[Transactions] = Transactions,
    tracer: Tracer = NO_TRACER,
) -> "ActiveRescaler":
    """Fence whoever was active, read the memory, and return the active rescaler; its actuator starts after the first round.

    ``topics``: of the memory, as they were before it is read.

    Raises:
        Lost, KafkaException, TimeoutError: Kafka does not answer; nothing is left open.
    """
    writer = transactions(settings, members, stop)
    writer.see_time()
    traces = Traces(tracer, settings.topic_prefix, settings.cluster)
    records = remembered(settings, status.count, traces)
    controller = Controller(Cluster(settings.cluster), settings.control(), records, timed=traces.timed)
    with contextlib.ExitStack() as opened:
        view = PipelineView(settings, lambda: LogReader(settings, VIEWED), status, log)
        opened.callback(view.close)
        clock = partial(_unless_apart, view.now_ms, status)
        worker = ActuatorThread(settings, engine, controller.status_of, clock, status, log, traces)
        opened.callback(worker.stop)
        active = ActiveRescaler(settings, controller, writer, view, worker, status, log, traces, topics)
        opened.pop_all()
    return active


def _unless_apart(now_ms: Callable[[], int | None], status: Status) -> int | None:
    """Return the pipeline's time; None, as if nobody knew it, while this machine's clock is apart from Kafka's."""
    return None if status.clock else now_ms()


class ActiveRescaler:
    """Memory, view, transactions, and the actuator beside them."""

    def __init__(
        self,
        settings: RescalerSettings,
        controller: Controller,
        transactions: Transactions,
        view: PipelineView,
        actuator: ActuatorThread,
        status: Status,
        log: logging.Logger,
        traces: Traces,
        topics: TopicIds,
    ) -> None:
        """Take over clients that are connected; `close` closes view and actuator.

        Raises:
            KafkaException, TimeoutError: the view cannot be read.
        """
        self._settings, self._status, self._log, self._traces = settings, status, log, traces
        self._controller, self._transactions, self._view, self._actuator = controller, transactions, view, actuator
        self._waiting: list[Message] = []  # decisions from before the pipeline's clock was seen, or held back
        self._held_back_s: float | None = None  # since when
        self._late_s: float | None = None  # since when the clock has stood still while news is missing
        self._changed = True  # the world, since timers last fired: it may have changed while no rescaler was active
        self._news = view.refresh()
        self._topics, self._looked_s = topics, time.monotonic()
        self._seen_s = time.monotonic()  # when the time at Kafka was last asked for

    @property
    def is_held(self) -> bool:
        """Whether nothing is done because of this machine's clock: decisions wait where they are."""
        return bool(self._status.clock)

    def take(self, records: Sequence[Message]) -> None:
        """Keep decisions for the next round."""
        self._waiting += records

    def round(self, records: Sequence[Message]) -> None:
        """Do what is due, in this order: progress, events, timers, decisions."""
        self._actuator.check()
        if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
            with contextlib.suppress(KafkaException):  # whoever needs Kafka says that it is away
                self._check_topics()
        self._waiting += records
        if self._is_apart():
            return
        news, changed = self._view.look()
        self._news += news
        self._changed |= changed
        is_idle = not (self._waiting or self._news or self._changed or self._actuator.has_reports() or self._is_due())
        if self._view.now_ms() is None or is_idle:
            return
        # Everything that a decision depends on was acknowledged before the decision, so it is visible after this.
        self._news += self._view.refresh()
        now_ms = self._view.now_ms()
        assert now_ms is not None
        if self._is_early(now_ms):
            return
        began_ns, told = time.time_ns(), self._actuator.take()
        effects = self._take_news(told.reports, now_ms)
        handled: list[Message] = []
        accepted: list[HandledDecision] = []
        letters: list[tuple[bytes | None, DeadLetter]] = []
        if not self._holds_back(now_ms):
            effects += self._take_news(self._news, now_ms)
            self._news = []
            handled, self._waiting = self._waiting, []
            self._changed = False
            accepted, letters = self._accepted(handled, now_ms)
            effects += self._answer_decisions(accepted, now_ms)
        if handled or not effects.is_empty:
            began_s = time.monotonic()
            if effects.commands:
                self._check_topics()
            with self._traces.round(accepted, effects, began_ns):
                self._transactions.write(effects, letters, _consumed(handled), told.carried_out, self._traces)
            self._status.count_round(handled, effects, letters, time.monotonic() - began_s)
            self._say(effects)
        self._actuator.start()  # not before: commands whose time was up while no rescaler was active are over by now
        self._status.show(self._controller.memory, self._view.view())

    def close(self) -> None:
        """Stop the actuator and close the view."""
        self._status.forget()
        self._actuator.stop()
        self._view.close()

    def _check_topics(self) -> None:
        """See that what is remembered still has its topics, before anything is carried out because of it.

        Raises:
            TransactionLost: a topic was made again.
            KafkaException: a topic is not there, or Kafka does not answer.
        """
        self._looked_s = time.monotonic()
        if lost := self._topics.look():
            raise TransactionLost(f"{', '.join(lost)} made again, so what is remembered is of topics that are gone")

    def _is_apart(self) -> bool:
        """Say whether this machine's clock is apart from Kafka's; each job's conditions name it, until it no longer is.

        Nothing may be decided or remembered by such a clock: a decision would lie ahead of it, a pause be over, a wait without
        end.
        """
        clock = self._transactions.clock
        words = clock.apart_in_words(self._view.apart_ms_max())
        if words and time.monotonic() - self._seen_s >= SEE_TIME_EVERY_S:
            self._seen_s = time.monotonic()
            self._transactions.see_time()
            words = clock.apart_in_words(self._view.apart_ms_max())
        if bool(words) != self.is_held and self._view.now_ms() is not None:
            self._status.clock = words
            self._log.log(logging.ERROR if words else logging.INFO, "%s", words or "the clocks agree again: going on")
            why, at_ms = f"nothing is done: {words}" if words else "", self._view.at_ms(clock.now_ms(apart_ms=0))
            effects = self._controller.hold(why, self._view.view(), at_ms)
            self._transactions.write(effects, [], [], None, self._traces)
            self._status.show(self._controller.memory, self._view.view())
        return bool(words)

    def _is_early(self, now_ms: int) -> bool:
        """Say whether to wait: the clock moves, or it has stopped and news from before the stop is missing.

        This way nothing depends on whether news of a death or a timer of the same minute comes first. The wait is limited, since
        a monitor may be away.
        """
        if self._view.is_up_to_date():
            self._late_s = None
            return False
        stop_ms = self._view.stop_ms()
        if stop_ms is None or now_ms < stop_ms:
            self._late_s = None
            return True
        self._late_s = self._late_s or time.monotonic()
        return time.monotonic() - self._late_s < HOLD_BACK_S

    def _holds_back(self, now_ms: int) -> bool:
        """Say whether timers and decisions wait for a rescale whose end is due: what they may do depends on it.

        In lockstep they also wait for news of learners, which may be ready by now, and for the decisions of all jobs: jobs that
        decide at once take hosts one after the other, so they are answered together, in the order of their ids.
        """
        in_lockstep = self._view.is_in_lockstep
        awaits = self._controller.awaits_end(now_ms) or (in_lockstep and self._controller.awaits_news(now_ms))
        if not (awaits or (in_lockstep and self._awaits_decisions())):
            self._held_back_s = None
            return False
        self._held_back_s = self._held_back_s or time.monotonic()
        return time.monotonic() - self._held_back_s < HOLD_BACK_S

    def _awaits_decisions(self) -> bool:
        read = (_decided(record) for record in self._waiting)
        return self._controller.awaits_decisions([each for each in read if each is not None], self._view.view())

    def _say(self, effects: Effects) -> None:
        for command in effects.commands:
            fields = {"job": command.job, "decision_id": command.decision_id, "command_id": command.command_id}
            self._log.info("commanded%s", ", as advice" if command.advice else "", extra=fields)

    def _is_due(self) -> bool:
        wake_ms, now_ms = self._controller.wake_at_ms(), self._view.now_ms()
        return wake_ms is not None and now_ms is not None and wake_ms <= now_ms

    def _take_news(self, happened: Sequence[News], now_ms: int) -> Effects:
        effects, view = Effects(), self._view.view()
        for news in in_order(happened):
            if isinstance(news, Progress):
                effects += self._controller.on_progress(news, view, now_ms)
            else:
                effects += self._controller.on_engine_event(news, view, now_ms)
        return effects

    def _answer_decisions(self, accepted: Sequence[HandledDecision], now_ms: int) -> Effects:
        """Fire timers, then answer decisions; overdue acts give way first."""
        view = self._view.view()
        newest = newest_by_job(each.decision for each in accepted)
        effects = self._controller.give_way(newest, view, now_ms) + self._controller.on_tick(view, now_ms)
        if self._view.is_in_lockstep:
            accepted = sorted(accepted, key=lambda each: (each.decision.span_end_ms, each.decision.job))
        for decision, headers in accepted:
            by_ms = overtaken_by_ms(headers)
            effects += self._controller.on_decision(decision, view, now_ms, newest[decision.job], by_ms)
        return effects

    def _accepted(
        self, records: Sequence[Message], now_ms: int
    ) -> tuple[list[HandledDecision], list[tuple[bytes | None, DeadLetter]]]:
        decisions, letters = list[HandledDecision](), []
        for record in records:
            try:
                decision = self._parsed(record.value(), now_ms)
            except RecordRejected as error:
                self._log.warning("%s[%s]@%s refused: %s", record.topic(), record.partition(), record.offset(), error)
                letters.append((key_of_letter(key_of(record)), _dead_letter(record, error)))
                continue
            if decision is not None:
                decisions.append(HandledDecision(decision, headers_of(record)))
        return decisions, letters

    def _parsed(self, raw: bytes | None, now_ms: int) -> Decision | None:
        """Return the decision, None if it is another cluster's.

        Raises:
            RecordRejected: it does not parse, or is ahead of the pipeline's clock.
        """
        decision = decode(raw, Decision)
        if cluster_of(decision.job) != self._settings.cluster:
            return None
        if decision.span_end_ms > now_ms + self._settings.ahead_of_clock_ms_max:
            message = (
                f"{decision.span_end_ms} is more than {self._settings.ahead_of_clock_ms_max} ms ahead of the pipeline's clock"
            )
            raise RecordRejected("ahead_of_clock", "span_end_ms", message)
        return decision


def _decided(record: Message) -> Decision | None:
    """Return the decision in a record; None if it cannot be read, which is said where it is taken."""
    try:
        return decode(record.value(), Decision)
    except RecordRejected:
        return None


def overtaken_by_ms(headers: GivenHeaders) -> int | None:
    """Return the end of the newer window that a decision's record names; None if it names none."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    for name, value in pairs:
        if name == OVERTAKEN_BY and isinstance(value, bytes) and len(value) <= TIME_DIGITS_MAX and value.isdigit():
            return int(value)
    return None


def newest_by_job(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """Return each job's decision for its latest span; of several for that span, the first."""
    newest: dict[str, Decision] = {}
    for decision in decisions:
        known = newest.get(decision.job)
        if known is None or decision.span_end_ms > known.span_end_ms:
            newest[decision.job] = decision
    return newest


def in_order(happened: Sequence[News]) -> list[News]:
    """Return news sorted by event time, then identity. Rounds take progress before events, as twins do.

    Reports on one command keep the order in which they came: an actuator that restarts reports the acceptance at its own time,
    which may be after the end that the engine reports.
    """
    times = [news.at_ms for news in happened]
    earliest: dict[str, int] = {}
    for at, news in reversed(list(enumerate(happened))):
        if isinstance(news, Progress):
            times[at] = earliest[news.command_id] = min(times[at], earliest.get(news.command_id, times[at]))
    return [happened[at] for at in sorted(range(len(happened)), key=lambda at: (times[at], *_identity(happened[at])))]


def _identity(news: News) -> tuple[str, int, str]:
    if isinstance(news, Progress):
        return news.job, news.desired_generation, news.command_id
    return news.job or "", news.sequence, news.kind


def _consumed(records: Sequence[Message]) -> list[TopicPartition]:
    """Return the offsets to commit: one past the last record of each partition."""
    last = {(record.topic() or "", record.partition() or 0): record.offset() or 0 for record in records}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]


def _dead_letter(record: Message, error: RecordRejected) -> DeadLetter:
    at = Coordinates(record.topic() or "", record.partition() or 0, record.offset() or 0)
    return dead_letter(at, record.value(), error, refused_by="rescaler")
