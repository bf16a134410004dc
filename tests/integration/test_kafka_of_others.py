"""Topics on a Kafka that somebody else runs: one that does not let every setting be set, and one of several brokers."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import TASK_METRICS, TOPICS
from surescale.runtime.kafka import admin_client
from surescale.runtime.ports import free_ports
from surescale.services.doctor.kafka_checks import KafkaChecks
from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.java import find_compiler
from surescale.services.local_stack.roles import surescale
from surescale.services.local_stack.servers import LocalBroker
from surescale.services.local_stack.supervisor import Role, Supervisor
from tests.support.faults.brokers import ReplicatingBroker
from tests.support.waiting import PATIENT_S

pytestmark = pytest.mark.integration

POLICY = """
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;

/** Lets nobody choose how records are compressed and cleaned, nor take large ones, as managed services do. */
public class ManagedPolicy implements org.apache.kafka.server.policy.CreateTopicPolicy {
    public void configure(Map<String, ?> settings) {}
    public void close() {}
    public void validate(RequestMetadata asked) {
        for (String name : new String[] {"compression.type", "min.cleanable.dirty.ratio"})
            if (asked.configs().containsKey(name)) throw new PolicyViolationException("Altering '" + name + "' is not allowed");
        if (Long.parseLong(asked.configs().getOrDefault("max.message.bytes", "0")) > 8388608)
            throw new PolicyViolationException("max.message.bytes is above 8388608");
    }
}
"""


class ManagedBroker(LocalBroker):
    """A broker with a policy on the settings of topics."""

    def prepare(self) -> None:
        """Compile the policy, which the storage's format looks for too."""
        compiler, jars = find_compiler(self._java), ":".join(map(str, self._jars))
        self.folder.mkdir(parents=True)
        source = self.folder / "ManagedPolicy.java"
        source.write_text(POLICY)
        subprocess.run([str(compiler), "-cp", jars, "-d", str(self.folder), str(source)], check=True, timeout=PATIENT_S)
        super().prepare()

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        return {**super()._own_settings(data), "create.topic.policy.class.name": "ManagedPolicy"}

    def _java_command(self, main_class: str) -> list[str]:
        command = super()._java_command(main_class)
        place = command.index("-cp") + 1
        command[place] += f":{self.folder}"
        return command


def created(settings: PipelineSettings, *options: str) -> tuple[int, str]:
    """Return the exit code of `topics create`, and what it said."""
    command = surescale("topics", "create", *options)
    done = subprocess.run(command, env=os.environ | to_environment(settings), capture_output=True, timeout=PATIENT_S, text=True)
    return done.returncode, done.stdout + done.stderr


def found(settings: PipelineSettings, left: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """Return what doctor says of the topics."""
    checks = KafkaChecks(settings, left)
    assert [each.verdict for each in checks.broker()] == ["ok"]
    return [(each.verdict, each.detail) for each in checks.topics()]


def present(settings: PipelineSettings) -> set[str]:
    """Return the names of the topics that are there, without the broker's own."""
    return {name for name in admin_client(settings).list_topics(timeout=PATIENT_S).topics if not name.startswith("__")}


def test_what_a_broker_does_not_let_one_set_is_left_to_it(tmp_path: Path) -> None:
    """Each refusal names the setting and the option; while anything is refused, no topic is created."""
    broker = ManagedBroker(tmp_path / "kafka")
    try:
        broker.prepare()
    except JavaError as missing:
        pytest.skip(str(missing))
    settings = PipelineSettings(bootstrap=broker.bootstrap)
    with Supervisor() as supervisor:
        supervisor.start(Role(broker.name, broker.command(), ready=broker.answers))
        for options, name in (((), "compression.type"), (("--leave", "compression.type"), "min.cleanable.dirty.ratio")):
            code, said = created(settings, *options)
            assert code == 1
            assert f"Altering '{name}' is not allowed; leave it to the broker: surescale topics create --leave {name}" in said
            assert len(said.splitlines()) == 1
            assert present(settings) == set()
        code, said = created(settings, "--leave", "compression.type", "--leave", "min.cleanable.dirty.ratio")
        assert (code, said.splitlines()[0]) == (0, "14 topics created, 0 were there")
        assert "compression.type is left to the broker: a broker's limit on bytes then lets small records unpack" in said
        assert "14 topics are on one broker each, and lost with it" in said
        assert present(settings) == set(TOPICS)
        assert {verdict for verdict, _ in found(settings)} == {"warning"}
        left = frozenset({"compression.type", "min.cleanable.dirty.ratio"})
        assert found(settings, left) == [("warning", "all 14 are there, and none ever had a record")]


def test_records_are_kept_by_as_many_brokers_as_asked_for(tmp_path: Path) -> None:
    """More than there are is refused by name; topics that one broker has are a warning where there are others."""
    ports = [(first, second) for first, second in zip(*[iter(free_ports(6))] * 2, strict=True)]
    brokers = [ReplicatingBroker(tmp_path / f"kafka-{number}", number, ports) for number in range(3)]
    settings = PipelineSettings(bootstrap=",".join(broker.bootstrap for broker in brokers))
    once = PipelineSettings(bootstrap=settings.bootstrap, topic_prefix="once-")
    with Supervisor() as supervisor:
        for broker in brokers:
            broker.prepare()
        supervisor.start_together([Role(broker.name, broker.command(), ready=broker.answers) for broker in brokers])
        code, said = created(settings, "--replicas", "4")
        assert (code, present(settings)) == (1, set())
        assert "replication factor" in said.lower()
        code, said = created(settings, "--replicas", "3")
        assert (code, said) == (0, "14 topics created, 0 were there\n")
        admin = admin_client(settings)
        parts = admin.list_topics(TASK_METRICS, timeout=PATIENT_S).topics[TASK_METRICS].partitions.values()
        assert {len(each.replicas) for each in parts} == {3}
        resource = ConfigResource("topic", TASK_METRICS)
        assert admin.describe_configs([resource])[resource].result(PATIENT_S)["min.insync.replicas"].value == "2"
        assert found(settings) == [("warning", "all 14 are there, and none ever had a record")]
        code, said = created(once, "--replicas", "1")
        assert code == 0
        assert "14 topics are on one broker each" in said
        assert found(once)[0] == ("warning", "14 topics, such as once-clock, on one broker each, and lost with it")
