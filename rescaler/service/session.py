"""One membership in the rescaler's consumer group: waiting without the cluster's partition, active with it.

A round reads what came, asks the pure controller, and commits all that follows in one transaction. Whatever goes wrong ends
the session; the next one starts from what is committed.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from contracts.commands import Progress
from contracts.dead_letters import Coordinates, dead_letter
from contracts.errors import RecordRejected
from contracts.ids import Cluster, cluster_of
from contracts.messages import DeadLetter, Decision, RescalerRecord
from contracts.topics import DECISIONS, RESCALER_STATE, TopicNames
from contracts.wire import decode
from rescaler.actuators.base import EngineApi
from rescaler.control.controller import Controller, Effects
from rescaler.service.actuator import ActuatorThread
from rescaler.service.partitions import partition_of
from rescaler.service.settings import RescalerSettings
from rescaler.service.status import Status
from rescaler.service.transactions import Transactions
from rescaler.service.views import News, RoadView
from runtime.backoff import Seldom
from runtime.kafka import REQUEST_TIMEOUT_S, LogReader, consumer, partitions_of

POLL_S = 0.05
BATCH_RECORDS = 1_000
HOLD_BACK_S = 10.0  # at most, for the report of a rescale's end, or for decisions that wait


class Session:
    """A member of the group from joining to leaving."""

    def __init__(
        self, settings: RescalerSettings, engine: EngineApi, status: Status, stop: threading.Event, log: logging.Logger
    ) -> None:
        self._settings, self._engine, self._status, self._stop, self._log = settings, engine, status, stop, log
        self._topic = TopicNames(settings.topic_prefix)(DECISIONS)
        self._seldom = Seldom()
        self._members: Consumer = consumer(
            settings,
            settings.group,
            **{
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": max(1, settings.session_ms // 5),
                "partition.assignment.strategy": "range",
                "error_cb": self._on_error,
            },
        )
        self._partition = partition_of(settings.cluster, len(partitions_of(self._members, self._topic)))
        self._assigned = False
        self._active: ActiveRescaler | None = None

    def run(self) -> None:
        """Wait and work until told to stop.

        Raises:
            Lost, KafkaException, TimeoutError: start again from what is committed.
            Fenced: another process is the active one.
        """
        self._members.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        try:
            while not self._stop.is_set():
                records = self._poll()
                if self._assigned and self._active is None:
                    self._active = self._activated()
                elif self._active is not None and not self._assigned:
                    self._log.info("cluster %s was taken from this process", self._settings.cluster)
                    self._deactivate()
                elif self._active is not None:
                    self._active.round(records)
                self._status.state = "active" if self._active else "standby"
        finally:
            self._deactivate()
            self._members.close()

    def _poll(self) -> list[Message]:
        first = self._members.poll(POLL_S)
        records = [] if first is None else [first, *self._members.consume(num_messages=BATCH_RECORDS, timeout=0)]
        for record in records:
            error = record.error()
            if error is not None and not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise KafkaException(error)
        return [record for record in records if record.error() is None]

    def _on_error(self, error: KafkaError) -> None:
        """The client comes through this by itself; say so every few seconds."""
        if self._seldom.is_time():
            self._log.warning("waiting for Kafka at %s: %s", self._settings.bootstrap, error.str())

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = any(partition.partition == self._partition for partition in partitions)

    def _on_revoke(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = False

    def _activated(self) -> "ActiveRescaler":
        """Fence whoever was active, read the memory, and go on from the committed offset."""
        active = ActiveRescaler(self._settings, self._members, self._engine, self._status, self._stop, self._log)
        try:
            (committed,) = self._members.committed([TopicPartition(self._topic, self._partition)], REQUEST_TIMEOUT_S)
            # Other partitions hold other clusters' decisions: they stay assigned to this member and are not read.
            self._members.assign([committed])
            active.take(self._backlog(committed.offset))
        except BaseException:
            active.close()  # its actuator works already
            raise
        self._log.info("active for cluster %s, %s from offset %s", self._settings.cluster, self._topic, committed.offset)
        return active

    def _backlog(self, from_offset: int) -> list[Message]:
        """The decisions that wait, as far as they come in time: what was due long ago gives way to them before timers fire."""
        place = TopicPartition(self._topic, self._partition)
        oldest, end = self._members.get_watermark_offsets(place, REQUEST_TIMEOUT_S)
        reached, records, deadline_s = max(from_offset, oldest), list[Message](), time.monotonic() + HOLD_BACK_S
        while reached < end and self._assigned and not self._stop.is_set() and time.monotonic() < deadline_s:
            records += self._poll()
            reached = (records[-1].offset() or 0) + 1 if records else reached
        return records

    def _deactivate(self) -> None:
        if self._active is not None:
            self._active.close()
        self._active = None


class ActiveRescaler:
    """The one rescaler of its cluster: memory, view, transactions, and the actuator beside it."""

    def __init__(
        self,
        settings: RescalerSettings,
        members: Consumer,
        engine: EngineApi,
        status: Status,
        stop: threading.Event,
        log: logging.Logger,
    ) -> None:
        self._settings, self._status, self._log = settings, status, log
        self._transactions = Transactions(settings, members, stop)
        self._controller = Controller(Cluster(settings.cluster), settings.control(), remembered(settings))
        self._waiting: list[Message] = []  # decisions that came before the road's clock was seen, or are held back
        self._held_back_s: float | None = None  # since when
        self._late_s: float | None = None  # since when the clock has stood without all being heard of
        self._changed = True  # the world, since timers last fired: it may have while no rescaler was active
        with contextlib.ExitStack() as opened:
            self._view = RoadView(settings, status, log)
            opened.callback(self._view.close)
            self._actuator = ActuatorThread(settings, engine, self._view.now_ms, status, log)
            opened.callback(self._actuator.stop)
            self._unheard = self._view.refresh()
            self._actuator.start()
            self._close = opened.pop_all().close

    def take(self, records: Sequence[Message]) -> None:
        """Let decisions wait for the next round."""
        self._waiting += records

    def round(self, records: Sequence[Message]) -> None:
        """Do what has become due, in this order: progress, events, timers, decisions."""
        self._actuator.check()
        self._waiting += records
        news, changed = self._view.look()
        self._unheard += news
        self._changed |= changed
        if self._view.now_ms() is None or not (self._waiting or self._unheard or self._changed or self._is_due()):
            return
        # Whatever a decision depends on was acknowledged before it, so it is seen after this.
        self._unheard += self._view.refresh()
        now_ms = self._view.now_ms()
        assert now_ms is not None
        if self._is_early(now_ms):
            return
        effects = self._heard([news for news in self._unheard if isinstance(news, Progress)], now_ms)
        self._unheard = [news for news in self._unheard if not isinstance(news, Progress)]
        handled: list[Message] = []
        letters: list[tuple[bytes | None, DeadLetter]] = []
        if not self._holds_back(now_ms):
            effects += self._heard(self._unheard, now_ms)
            self._unheard = []
            handled, self._waiting = self._waiting, []
            self._changed = False
            decisions, letters = self._accepted(handled, now_ms)
            effects += self._answered(decisions, now_ms)
        if handled or not effects.is_empty:
            began_s = time.monotonic()
            self._transactions.write(effects, letters, _consumed(handled))
            self._status.count_round(handled, effects, letters, time.monotonic() - began_s)
            self._say(effects)
        self._status.show(self._controller.memory, self._view.view())

    def close(self) -> None:
        """Stop the actuator and leave the broker."""
        self._status.forget()
        self._close()

    def _is_early(self, now_ms: int) -> bool:
        """Say whether to wait: the clock moves, or has come to a stop of which not all has been heard of yet.

        So nothing depends on whether a death was heard of before or after a timer of the same minute. Not for ever: a monitor may
        be away.
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
        """Say whether timers and decisions wait for the end of a rescale that is due by now: what they may do depends on it.

        In lockstep they wait for news of learners too: these may be ready by now.
        """
        in_lockstep = self._view.is_in_lockstep
        if not (self._controller.awaits_end(now_ms) or (in_lockstep and self._controller.awaits_news(now_ms))):
            self._held_back_s = None
            return False
        self._held_back_s = self._held_back_s or time.monotonic()
        return time.monotonic() - self._held_back_s < HOLD_BACK_S

    def _say(self, effects: Effects) -> None:
        for command in effects.commands:
            fields = {"job": command.job, "decision_id": command.decision_id, "command_id": command.command_id}
            self._log.info("commanded%s", ", as advice" if command.advice else "", extra=fields)

    def _is_due(self) -> bool:
        wake_ms, now_ms = self._controller.wake_at_ms(), self._view.now_ms()
        return wake_ms is not None and now_ms is not None and wake_ms <= now_ms

    def _heard(self, happened: Sequence[News], now_ms: int) -> Effects:
        effects, view = Effects(), self._view.view()
        for news in in_order(happened):
            hear = self._controller.on_progress if isinstance(news, Progress) else self._controller.on_engine_event
            effects += hear(news, view, now_ms)  # type: ignore[arg-type]  # each its own kind
        return effects

    def _answered(self, decisions: Sequence[Decision], now_ms: int) -> Effects:
        """Timers, then decisions; only what should have gone long ago gives way first."""
        view = self._view.view()
        newest = newest_by_job(decisions)
        effects = self._controller.give_way(newest, view, now_ms) + self._controller.on_tick(view, now_ms)
        for decision in decisions:
            effects += self._controller.on_decision(decision, view, now_ms, newest[decision.job])
        return effects

    def _accepted(self, records: Sequence[Message], now_ms: int) -> tuple[list[Decision], list[tuple[bytes | None, DeadLetter]]]:
        decisions, letters = list[Decision](), []
        for record in records:
            try:
                decision = self._parsed(record.value(), now_ms)
            except RecordRejected as error:
                self._log.warning("%s[%s]@%s refused: %s", record.topic(), record.partition(), record.offset(), error)
                letters.append((_key(record), _dead_letter(record, error)))
                continue
            if decision is not None:
                decisions.append(decision)
        return decisions, letters

    def _parsed(self, raw: bytes | None, now_ms: int) -> Decision | None:
        """The decision, None if it is another cluster's.

        Raises:
            RecordRejected: it does not parse, or is ahead of the road's clock.
        """
        decision = decode(raw, Decision)
        if cluster_of(decision.job) != self._settings.cluster:
            return None
        if decision.span_end_ms > now_ms + self._settings.ahead_of_clock_ms_max:
            message = f"{decision.span_end_ms} is more than {self._settings.ahead_of_clock_ms_max} ms ahead of the road's clock"
            raise RecordRejected("ahead_of_clock", "span_end_ms", message)
        return decision


def newest_by_job(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """The decision of each job for its latest span; of several the first, as everywhere."""
    newest: dict[str, Decision] = {}
    for decision in decisions:
        known = newest.get(decision.job)
        if known is None or decision.span_end_ms > known.span_end_ms:
            newest[decision.job] = decision
    return newest


def in_order(happened: Sequence[News]) -> list[News]:
    """Sort by event time, then identity; rounds hear progress first, then events, as twins do.

    Reports on one command stay in the order in which they came: an actuator that begins again reports the acceptance at its own
    time, which may be after the end that the engine tells of.
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


def remembered(settings: RescalerSettings) -> list[RescalerRecord]:
    """The latest record under each key of this cluster, sorted by key."""
    reader = LogReader(settings, [RESCALER_STATE])
    try:
        latest: dict[str, bytes | None] = {}
        for record in reader.read_to_end():
            latest[(_key(record) or b"").decode()] = record.value()
    finally:
        reader.close()
    mine = f"{settings.cluster}/"
    return [decode(raw, RescalerRecord) for key, raw in sorted(latest.items()) if raw is not None and key.startswith(mine)]


def _consumed(records: Sequence[Message]) -> list[TopicPartition]:
    """What to commit: one past the last record of each partition."""
    last = {(record.topic() or "", record.partition() or 0): record.offset() or 0 for record in records}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]


def _key(record: Message) -> bytes | None:
    key = record.key()
    return key.encode() if isinstance(key, str) else key


def _dead_letter(record: Message, error: RecordRejected) -> DeadLetter:
    at = Coordinates(record.topic() or "", record.partition() or 0, record.offset() or 0)
    return dead_letter(at, record.value(), error, refused_by="rescaler")
