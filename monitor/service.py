"""The monitor's loop: one watcher per job, so a slow or failing job does not hold up the others.

Order within a job is a promise: topologies and events, then a minute's samples, acknowledged, then its marker. A reader
that acts on the marker has already seen everything that belongs to the minute.
"""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Literal, TypeVar

from confluent_kafka import KafkaException
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.messages import ClusterTopology, HourlyLoad, JobTopology, MinuteMarker
from surescale.contracts.plurals import listed
from surescale.contracts.restarts import RestartMeter, look_at
from surescale.contracts.topics import CLOCK, CLUSTER_TOPOLOGY, ENGINE_EVENTS, JOB_TOPOLOGY, TASK_METRICS, TopicNames
from surescale.contracts.topology import RESTING, check_topology, has_ended
from surescale.engines.ports.source import FinishedMinute, Source, SourceUnavailable, UnknownJob
from surescale.engines.registry import NO_ACTUATOR
from surescale.monitor import metrics
from surescale.monitor.delivery import LINGER_MS, DeliveryFailed, FencedReports, Outbox, Reports
from surescale.monitor.first_sizes import FirstSizes
from surescale.monitor.lease import Lease, fenced
from surescale.monitor.prices import NO_PRICES, PriceHistory, PriceTable
from surescale.monitor.progress import OtherMonitors, last_cluster, last_markers, last_topologies, own_header, own_name
from surescale.monitor.settings import MonitorSettings
from surescale.runtime.backoff import Stopped, Throttle, wait_for
from surescale.runtime.beats import TurnLock, beat, beside, pause
from surescale.runtime.kafka import producer, wait_for_topics
from surescale.runtime.kafka_clock import KAFKA_CLOCK
from surescale.runtime.kafka_transactions import TransactionLost
from surescale.runtime.metrics import Reading, RoleMetrics, Tally
from surescale.runtime.tracing.context import Headers
from surescale.runtime.tracing.conventions import sent
from surescale.runtime.tracing.setup import tracer_of
from surescale.runtime.tracing.spans import NO_TRACER, Attributes, Tracer
from surescale.runtime.watchdog import fault_in_words

_log = logging.getLogger(__name__)
SAY_APART_EVERY_S = 600.0


WATCHERS_END_WITHIN_S = 3.0  # all together: one may hang in a request to an engine that is gone, and loses nothing
LOOK_FOR_JOBS_EVERY_S = 2.0
RETRY_AFTER_S, RETRY_AFTER_FAULT_S = 1.0, 60.0  # the latter at most: the pause doubles with each fault in a row
HOSTS_AGAIN_S = 600.0
UNPRICED_SHOWN = 6
T = TypeVar("T")
State = Literal["starting", "standby", "active"]
TOPICS_USED = (TASK_METRICS, CLOCK, JOB_TOPOLOGY, CLUSTER_TOPOLOGY, ENGINE_EVENTS)


class Monitor:
    """Watches every job of one source."""

    def __init__(self, settings: MonitorSettings, source: Source, *, stop: threading.Event, log: logging.Logger) -> None:
        self._settings = settings
        self._source = source
        self._stop = stop
        self._log = log
        self._watchers: dict[str, threading.Thread] = {}
        self._jobs: dict[str, JobWatcher] = {}
        self._listed: frozenset[str] = frozenset()  # jobs the source listed last time
        self._knows_markers = False
        self._ends: EndedJobs | None = None  # once the topic has been read
        self._known: dict[str, JobTopology] = {}  # as the topic has it
        self._source_answers = False  # when last asked for its jobs
        self._troubled: set[str] = set()  # jobs whose last minute Kafka refused, or whose watcher met a fault
        self._written, self._source_errors, self._faults = Tally(), Tally(), Tally()
        self._state: State = "starting"
        self._lease: Lease | None = None
        self._others = OtherMonitors(settings, log)
        self._tracer = tracer_of("monitor")
        self.metrics = RoleMetrics("monitor", metrics.METRICS, self._readings)

    def run(self) -> None:
        """Run until told to stop, or until a recording has been sent in full.

        Raises:
            SurescaleError: another monitor watches the cluster now, or Kafka's client gave up.
        """
        with contextlib.suppress(Stopped), closing(self._tracer):
            wait_for_topics(self._settings, TOPICS_USED, stop=self._stop, log=self._log)
            if self._settings.leader_elect:
                self._watch_in_turn()
            else:
                self._watch_all(Reports(producer(self._settings, **{"linger.ms": LINGER_MS}), self._stop))

    def _watch_in_turn(self) -> None:
        """Stand by until no other monitor watches the cluster, and watch it until another one does."""
        reports: FencedReports | None = None
        with closing(Lease(self._settings, self._stop, self._log)) as lease, contextlib.suppress(Stopped):
            self._state, self._lease = "standby", lease
            lease.wait()
            self._state = "starting"
            reports = self._read("the right to publish", lambda: fenced(self._settings, self._stop))
            self._watch_all(reports)
        if ended := (reports.ended if reports else None) or lease.ended:
            raise ended

    def _watch_all(self, shared: Reports) -> None:
        """Read how far the jobs have come, and watch them until told to stop."""
        try:
            takes_commands = self._settings.chosen.actuators[self._settings.actuator_kind] is not NO_ACTUATOR
            prices = PriceTable.of(self._settings.prices)
            said = self._read("what was last said of the hosts", lambda: last_cluster(self._settings))
            cluster = ClusterWatcher(self._source, self._outbox(shared), takes_commands=takes_commands, prices=prices, known=said)
            jobs = self._await_source()
            with contextlib.suppress(SourceUnavailable, DeliveryFailed):  # Kafka's time is known before a minute is dated
                cluster.publish_changes()
            markers = self._read("the last markers", lambda: last_markers(self._settings, jobs))
            known = self._read("the last topologies", lambda: last_topologies(self._settings))
            self._ends = EndedJobs(self._source, self._outbox(shared), known)
            self._known = {topology.job: topology for topology in known}
            self._knows_markers, seldom = True, Throttle(SAY_APART_EVERY_S)
            self._state = "active"
            while not self._stop.is_set():
                self._listed = frozenset(jobs)
                for job in jobs:
                    self._watch(job, markers.get(job, 0), shared, cluster)
                self._ends.publish(self._listed | {job for job, thread in self._watchers.items() if thread.is_alive()})
                if self._source.is_finite and all(watcher.is_done for watcher in self._jobs.values()):
                    break
                self._others.look()
                if not self._is_on_time() and seldom.is_time():
                    self._log.error("%s; until then, minutes are dated by Kafka's", KAFKA_CLOCK.apart_in_words())
                pause(self._stop, LOOK_FOR_JOBS_EVERY_S)
                jobs = self._await_source()
        except Stopped:
            pass
        self._source.close()
        deadline_s = time.monotonic() + WATCHERS_END_WITHIN_S
        for thread in self._watchers.values():
            thread.join(timeout=max(0.0, deadline_s - time.monotonic()))
        shared.close()

    def report(self) -> Mapping[str, Any]:
        """Return the health: ready while the source answers, Kafka refuses no job's records and no watcher meets a fault.

        One on standby is ready to take over while it is in touch with Kafka.
        """
        watchers = dict(self._jobs)
        is_well = self._knows_markers and self._source_answers and not self._troubled & self._listed
        return {
            "role": "monitor",
            "ready": is_well or (self._lease is not None and self._lease.stands_by),
            "state": self._state,
            "jobs": {name: watcher.after_ms for name, watcher in watchers.items() if name in self._listed},
            "minutes": sum(watcher.minutes_sent for watcher in watchers.values()),
            "samples": sum(watcher.samples_sent for watcher in watchers.values()),
            "malformed": sum(watcher.malformed_sent for watcher in watchers.values()),
            "other_monitor": self._others.name,
            "clock": "" if self._is_on_time() else KAFKA_CLOCK.apart_in_words(),
        }

    def _is_on_time(self) -> bool:
        """Say whether minutes are dated by this machine's clock, or by one that has nothing to do with it."""
        return self._source.is_finite or self._settings.pipeline_clock or not KAFKA_CLOCK.apart_in_words()

    def _readings(self) -> Iterator[Reading]:
        watchers = dict(self._jobs)
        yield from self._written.readings(metrics.RECORDS_WRITTEN)
        yield from self._source_errors.readings(metrics.SOURCE_ERRORS)
        yield from self._faults.readings(metrics.WATCHER_FAULTS)
        yield Reading(metrics.ACTIVE, float(self._state == "active"), (self._settings.cluster,))
        yield Reading(metrics.MINUTES, sum(watcher.minutes_sent for watcher in watchers.values()))
        yield Reading(metrics.SAMPLES, sum(watcher.samples_sent for watcher in watchers.values()))
        yield Reading(metrics.MALFORMED, sum(watcher.malformed_sent for watcher in watchers.values()))
        present = sorted(name for name in watchers if name in self._listed)
        yield Reading(metrics.JOBS, len(present))
        for job, watcher in ((name, watchers[name]) for name in present):
            yield Reading(metrics.LAST_MINUTE, watcher.after_ms / 1000, (job,))
            yield Reading(metrics.MINUTES_MISSING, watcher.minutes_missing, (job,))

    def _marked(self, minute: FinishedMinute) -> None:
        if self._ends is not None:
            self._ends.note(minute.topology)
        if minute.reached_wall_ms is not None:
            self.metrics.observe(metrics.MARKER_DELAY, time.time() - minute.reached_wall_ms / 1000)

    def _read(self, what: str, question: Callable[[], T]) -> T:
        return wait_for(what, question, expected=(KafkaException, TimeoutError, TransactionLost), stop=self._stop, log=self._log)

    def _await_source(self) -> list[str]:
        return wait_for("the engine", self._jobs_now, expected=(SourceUnavailable,), stop=self._stop, log=self._log)

    def _jobs_now(self) -> list[str]:
        try:
            jobs = self._source.jobs()
        except SourceUnavailable:
            self._source_answers = False
            raise
        self._source_answers = True
        return jobs

    def _watch(self, job: str, after_ms: int, shared: Reports, cluster: "ClusterWatcher") -> None:
        thread = self._watchers.get(job)
        if thread is not None and thread.is_alive():
            return
        watcher = self._jobs.get(job) or JobWatcher(
            job, self._source, self._outbox(shared), cluster, after_ms, self._marked, tracer=self._tracer,
            known=self._known.get(job), topic=TopicNames(self._settings.topic_prefix)(TASK_METRICS),
        )  # fmt: skip
        if watcher.is_done:
            return
        self._jobs[job] = watcher
        # It may end with its job: whoever looks for jobs begins another where one is still listed.
        self._watchers[job] = beside(partial(self._run_watcher, watcher), f"the watcher of {job}", None)
        self._watchers[job].start()
        self._log.info("watching %s from %d", job, watcher.after_ms, extra={"job": job})

    def _run_watcher(self, watcher: "JobWatcher") -> None:
        """Step until the job is gone; the main loop starts a new watcher if the job is still listed.

        A fault that nobody expected costs this job alone: it is said and counted, and the job is tried again after a pause.
        """
        seldom, pause_s = Throttle(), RETRY_AFTER_S
        while not self._stop.is_set() and not watcher.is_done:
            beat()
            after_ms = watcher.after_ms
            try:
                goes_on = self._step(watcher, seldom)
            except Exception as fault:
                self._troubled.add(watcher.job)
                self._faults.add(watcher.job)
                words = "%s: an unexpected fault: %s; the job is tried again in %.0f s"
                self._log.error(words, watcher.job, fault_in_words(fault), pause_s, extra={"job": watcher.job})
                self._log.debug("its trace", exc_info=fault)
                watcher.begin_again(self._outbox(watcher.outbox.reports))
                pause(self._stop, pause_s)
                pause_s = min(2 * pause_s, RETRY_AFTER_FAULT_S)
                continue
            if not goes_on:
                return
            if watcher.after_ms > after_ms:
                self._troubled.discard(watcher.job)
                pause_s = RETRY_AFTER_S

    def _step(self, watcher: "JobWatcher", seldom: Throttle) -> bool:
        """Take one step; return whether there will be another."""
        try:
            watcher.step()
        except SourceUnavailable as away:
            self._source_errors.add(watcher.job)
            if seldom.is_time():
                self._log.warning("%s: %s", watcher.job, away, extra={"job": watcher.job})
            pause(self._stop, RETRY_AFTER_S)
        except Stopped:
            return False
        except (UnknownJob, DeliveryFailed) as ended:
            if isinstance(ended, DeliveryFailed):
                self._troubled.add(watcher.job)
            self._log.warning("%s: watching ends: %s", watcher.job, ended, extra={"job": watcher.job})
            watcher.announce_end()
            watcher.begin_again(self._outbox(watcher.outbox.reports))
            return False
        return True

    def _outbox(self, shared: Reports) -> Outbox:
        names = TopicNames(self._settings.topic_prefix)
        return Outbox(shared, names, stop=self._stop, log=self._log, written=self._written)


class ClusterWatcher:
    """Publishes hosts and events when they change. The job watchers share it and call it before they mark a minute.

    Hosts are sent again from time to time: another record on their topic, forged or of another monitor, holds only until then.
    """

    def __init__(
        self,
        source: Source,
        outbox: Outbox,
        *,
        takes_commands: bool = True,
        prices: PriceTable = NO_PRICES,
        known: ClusterTopology | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Send nothing yet.

        Args:
            source: of the hosts and events.
            outbox: takes the records.
            takes_commands: False if there is no actuator, so that nobody is to act on the jobs, whatever the engine can do.
            prices: of the hosts.
            known: what was last said of the cluster; None: nothing.
            now_s: a clock.
        """
        self._source = source
        self._outbox = outbox
        self._takes_commands = takes_commands
        self._prices, self._told_unpriced = prices, ""
        self._past_prices = PriceHistory(known)
        self._lock = TurnLock()
        self._now_s = now_s
        self._sent_s = 0.0
        self._topology: ClusterTopology | None = None
        self._newest_event = ""  # identity of the last event sent

    def publish_changes(self) -> None:
        """Send what changed and wait until it is acknowledged."""
        with self._lock:
            topology = self._source.cluster_topology()
            if topology is not None and not self._takes_commands:
                topology = replace(topology, engine=replace(topology.engine, acts="none"))
            if topology is not None:
                topology = self._past_prices.noted(self._prices.priced(replace(topology, monitor=own_name())))
                self._say_unpriced(topology)
            is_due = self._now_s() - self._sent_s >= HOSTS_AGAIN_S
            if topology is not None and (topology != self._topology or is_due):
                self._outbox.send(CLUSTER_TOPOLOGY, topology.cluster, topology)
                self._sent_s = self._now_s()
            events = self._source.events(self._newest_event)
            for event in events:
                self._outbox.send(ENGINE_EVENTS, event.cluster, event)
            if self._outbox.await_acknowledged():
                self._topology = topology
                self._newest_event = events[-1].identity if events else self._newest_event

    def _say_unpriced(self, topology: ClusterTopology) -> None:
        """Name hosts without a price, once; what they cost is unknown, and so is what the cluster does."""
        if unpriced := self._prices.unpriced(topology):
            if unpriced[0] != self._told_unpriced:
                names = listed(unpriced, UNPRICED_SHOWN)
                _log.warning("no price for %s, so what jobs cost is unknown; add it to SURESCALE_PRICES", names)
            self._told_unpriced = unpriced[0]


class JobWatcher:
    """Publishes one job's finished minutes in order.

    ``after_ms`` is the end of the last minute whose marker is acknowledged. Resuming from there after any failure may repeat
    records (they count once by their identity) but never skips one.
    """

    def __init__(
        self,
        job: str,
        source: Source,
        outbox: Outbox,
        cluster: ClusterWatcher,
        after_ms: int,
        on_marked: Callable[[FinishedMinute], None] = lambda _: None,
        *,
        tracer: Tracer = NO_TRACER,
        known: JobTopology | None = None,
        topic: str = TASK_METRICS,
    ) -> None:
        """Send nothing yet.

        Args:
            job: its id.
            source: of its minutes.
            outbox: takes its records.
            cluster: publishes what concerns all jobs.
            after_ms: end of the last minute that was marked.
            on_marked: is called for each minute whose marker was sent.
            tracer: begins a trace with each minute.
            known: what was last said of the job; None: nothing.
            topic: full name of the one for its minutes, as traces name it.
        """
        self._topic = topic
        self.job = job
        self.outbox = outbox
        self.after_ms = after_ms
        self.is_done = False
        self.minutes_sent = self.samples_sent = self.malformed_sent = self.minutes_missing = 0
        self._source = source
        self._cluster = cluster
        self._on_marked = on_marked
        self._tracer = tracer
        self._marked_ms = 0
        self._topology: JobTopology | None = None
        self._history: tuple[HourlyLoad, ...] | None = None
        self._restarts = RestartMeter(known.restart_ms if known is not None else None)
        self._first_sizes = FirstSizes(known)

    def begin_again(self, outbox: Outbox) -> None:
        """Forget all but the last minute and what rescales took: a job that comes back may be another one of the same name."""
        self.outbox = outbox
        self._topology, self._history, self._marked_ms = None, None, self.after_ms

    def announce_end(self) -> None:
        """Publish what the source knows of the end; no minute of this job will."""
        try:
            self._cluster.publish_changes()
        except (SourceUnavailable, DeliveryFailed, Stopped):
            return  # the next job's minute does it

    def step(self) -> None:
        """Fetch finished minutes and send them.

        Raises:
            SourceUnavailable, UnknownJob: nothing sent so far needs undoing.
            DeliveryFailed: the broker refused a record; the next step starts after the last acknowledged marker.
            runtime.backoff.Stopped: the process was told to stop while there was no room for a record.
        """
        minutes = [self._completed(minute) for minute in self._source.minutes(self.job, self.after_ms)]
        if not minutes:
            self.is_done = self._source.is_finite
            return
        try:
            self._send(minutes)
        except DeliveryFailed:
            # A topology, a marker, or the one with the history may have been lost, so send all of them again.
            self._topology, self._history = None, None
            self._marked_ms = self.after_ms
            raise

    def _completed(self, minute: FinishedMinute) -> FinishedMinute:
        """Return a minute whose topology says how long a rescale stops the job, and the author's sizes, as far as is known.

        The simulated engine knows it itself, and a recording has what was known then.
        """
        topology = minute.topology
        if self._source.is_finite or is_simulated(topology.engine):
            return minute
        self._restarts.note(minute.minute_end_ms, look_at(topology, minute.samples), is_resting=topology.state == RESTING)
        restart_ms = self._restarts.restart_ms if topology.restart_ms is None else topology.restart_ms
        return dataclasses.replace(minute, topology=replace(self._first_sizes.noted(topology), restart_ms=restart_ms))

    def _send(self, minutes: Sequence[FinishedMinute]) -> None:
        if self._history is None:
            self._history = self._source.load_history(self.job)
        self._cluster.publish_changes()
        for minute in minutes:
            attributes: Attributes = {
                "surescale.job": self.job,
                "surescale.minute_end_ms": minute.minute_end_ms,
                **sent(self._topic),
            }
            with self._tracer.begin("monitor.minute", kind="producer", attributes=attributes) as span:
                self._send_records(minute)
                if not self.outbox.await_acknowledged():
                    return
                # The previous marker was sent before these records, so it is acknowledged too.
                self.after_ms = max(self.after_ms, self._marked_ms)
                self._send_marker(minute, [*span.headers(), *own_header()])
                span.note({"surescale.samples": len(minute.samples)})
        if self.outbox.await_acknowledged():
            self.after_ms = self._marked_ms

    def _send_records(self, minute: FinishedMinute) -> None:
        if minute.topology != self._topology and _is_sound(minute):
            self.outbox.send(JOB_TOPOLOGY, self.job, minute.topology)
        for sample in minute.samples:
            self.outbox.send(TASK_METRICS, self.job, sample)
        for document in minute.malformed:
            self.outbox.send(TASK_METRICS, self.job, document)
        self._topology = minute.topology
        self.samples_sent += len(minute.samples)
        self.malformed_sent += len(minute.malformed)

    def _send_marker(self, minute: FinishedMinute, headers: Headers) -> None:
        marker = MinuteMarker(
            job=self.job,
            minute_end_ms=minute.minute_end_ms,
            topology=replace(minute.topology, groups=(), quiet=None),  # windows need neither
            reached_wall_ms=minute.reached_wall_ms,
            age_ms=minute.age_ms,
            observer=minute.observer,
            load_history=self._history or (),
        )
        self.outbox.send(TASK_METRICS, self.job, marker, headers)
        before_ms = max(self.after_ms, self._marked_ms)
        if before_ms:
            self.minutes_missing += max(0, (minute.minute_end_ms - before_ms) // MINUTE_MS - 1)
        self._history, self._marked_ms = (), minute.minute_end_ms
        self.minutes_sent += 1
        self._on_marked(minute)


def _is_sound(minute: FinishedMinute) -> bool:
    """Send an unusable graph in the marker only; the snapshot stage refuses it with its coordinates."""
    try:
        check_topology(minute.topology)
    except RecordRejected:
        return False
    return True


class EndedJobs:
    """The jobs that were last seen alive. Watchers `note` them in their threads; one thread calls `publish`."""

    def __init__(self, source: Source, outbox: Outbox, known: Iterable[JobTopology] = ()) -> None:
        """``known``: what the topic said of each job before."""
        self._source, self._outbox = source, outbox
        self._alive = {topology.job: topology for topology in known if not has_ended(topology)}

    def note(self, topology: JobTopology) -> None:
        """Take a job's newest topology, which has been sent."""
        if has_ended(topology):
            self._alive.pop(topology.job, None)
        else:
            self._alive[topology.job] = topology

    def publish(self, present: Collection[str]) -> None:
        """Publish what has become of each job that has left; what could not be sent is tried again.

        Args:
            present: jobs that are listed, or about which something may still be sent.
        """
        gone = [last for job, last in dict(self._alive).items() if job not in present]
        found = map(self._source.end_of, sorted(gone, key=lambda each: each.job))
        ended = [each for each in found if each is not None]
        if self._are_sent(ended):
            for each in ended:
                self.note(each)

    def _are_sent(self, ended: Sequence[JobTopology]) -> bool:
        try:
            for each in ended:
                self._outbox.send(JOB_TOPOLOGY, each.job, each)
            return self._outbox.await_acknowledged()
        except (DeliveryFailed, Stopped):
            return False
