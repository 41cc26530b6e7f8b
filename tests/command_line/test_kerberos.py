"""Commands log in by Kerberos at a real broker, where all that it needs is installed."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from group_coordinator.ground import kerberos
from group_coordinator.ground.kafka_topics.clients import login_problem
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties, properties_problems
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from tests.command_line.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, command, wait_for
from tests.ground.kdc import LACKING, REALM, USER, Kdc, kdc
from tests.waiting import wait_until
from tests.watching.watch.live import consumer, with_topic

GROUP = "payments"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


def _has_kerberos() -> bool:
    try:
        AdminClient({"log_level": 0, "bootstrap.servers": "localhost", "builtin.features": "sasl_gssapi"})
    except KafkaException:
        return False
    return True


_LIBRDKAFKA_HAS_IT = _has_kerberos()
_ABSENT = [*LACKING, *([] if find_spec("gssapi") else ["gssapi"])] + (
    [] if _LIBRDKAFKA_HAS_IT else ["a confluent-kafka with Kerberos"]
)
needs_kerberos = pytest.mark.skipif(bool(_ABSENT), reason=f"not installed here: {', '.join(_ABSENT)}")


def kafka(login: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f"{_MODULE} {login};",
    }


def by_keytab(path: Path | str) -> dict[str, str]:
    return kafka(f'useKeyTab=true storeKey=true keyTab="{path}" principal="{USER}"')


def test_both_forms_are_translated() -> None:
    properties = by_keytab("/k")
    assert properties_problems(properties) == []
    translated = librdkafka_properties("b:1", properties)
    assert (translated[kerberos.KEYTAB], translated[kerberos.PRINCIPAL]) == ("/k", USER)
    by_cache = kafka('useTicketCache=true ticketCache="/tickets" serviceName="kafka"')
    del by_cache["sasl.kerberos.service.name"]
    assert properties_problems(by_cache) == []
    translated = librdkafka_properties("b:1", by_cache)
    assert (translated[kerberos.TICKET_CACHE], translated["sasl.kerberos.service.name"]) == ("/tickets", "kafka")


@pytest.mark.parametrize(
    ("login", "sentence"),
    [
        ("", 'must have useKeyTab=true keyTab="..." principal="...", or useTicketCache=true'),
        ('useKeyTab=true keyTab="/hush"', "must have useKeyTab=true"),
        ('keyTab="/hush" principal="hush"', "must have useKeyTab=true"),
        ('useKeyTab=true keytab="/hush" principal="hush"', "Did you mean keyTab?"),
        ('username="hush" password="hush"', "has username, which our clients do not know"),
    ],
)
def test_mistakes_are_told(login: str, sentence: str) -> None:
    (problem,) = properties_problems(kafka(login))
    assert sentence in problem
    assert "hush" not in problem


def test_the_service_must_be_named() -> None:
    properties = by_keytab("/k")
    del properties["sasl.kerberos.service.name"]
    (problem,) = properties_problems(properties)
    assert "needs sasl.kerberos.service.name" in problem


@pytest.mark.skipif(_LIBRDKAFKA_HAS_IT, reason="this confluent-kafka has Kerberos")
def test_a_library_without_it_is_told() -> None:
    told = login_problem(librdkafka_properties("127.0.0.1:1", by_keytab("/k")))
    assert told is not None
    assert "--no-binary confluent-kafka" in told


class Realm:
    """A broker that lets in by Kerberos alone, with a group."""

    def __init__(self, server: Kdc, bootstrap_servers: str, keytab: Path, open_servers: str) -> None:
        """`open_servers`: of the same broker's other listener, where nobody logs in."""
        self.server, self.keytab, self.open_servers = server, keytab, open_servers
        self._servers = bootstrap_servers

    def arguments(self, properties: dict[str, str], *command_line: str) -> list[str]:
        flags = [f"--kafka={name}={value}" for name, value in properties.items()]
        return [*command_line, "--bootstrap-servers", self._servers, *flags]

    def call(self, properties: dict[str, str], *command_line: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "group_coordinator.command_line.main"]
        return subprocess.run(
            [*program, *self.arguments(properties, *command_line)],
            env=self.server.environment | {"TZ": "UTC"}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Iterator[Realm]:
    address = f"localhost:{free_port()}"
    with kdc(tmp_path_factory.mktemp("kdc")) as server:
        keytab = server.keytab(f"kafka/localhost@{REALM}")
        broker = f'{_MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        properties = {
            "listeners": f"KERBEROS://{address}",
            "advertised.listeners": f"KERBEROS://{address}",
            "listener.security.protocol.map": "KERBEROS:SASL_PLAINTEXT",
            "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.kerberos.sasl.kerberos.service.name": "kafka",
            "listener.name.kerberos.gssapi.sasl.jaas.config": broker,
        }
        options = [f"-Djava.security.krb5.conf={server.config}"]
        with EmbeddedKafka(properties=properties, java_options=options) as kafka:
            with_topic(kafka, AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), GROUP)
            member = consumer(kafka, GROUP)
            member.subscribe([GROUP])
            wait_until(lambda: (member.poll(0.1), len(member.assignment()) == 2)[1])
            yield Realm(server, address, server.keytab(USER), kafka.bootstrap_servers)
            member.close()


@needs_kerberos
@pytest.mark.kafka
def test_a_keytab_and_a_ticket_come_in(realm: Realm, tmp_path: Path) -> None:
    tickets, dump = tmp_path / "tickets", tmp_path / "dump.offsets.jsonl"
    realm.server.run("kinit", "-c", f"FILE:{tickets}", "-k", "-t", str(realm.keytab), USER)
    for properties in (by_keytab(realm.keytab), kafka(f'useTicketCache=true ticketCache="{tickets}"')):
        explained = realm.call(properties, "explain", "--group", GROUP)
        assert explained.returncode == 0, explained.stderr
        assert f"Group {GROUP}, rebalance to generation 1" in explained.stdout
    exported = realm.call(by_keytab(realm.keytab), "export", "offsets-topic", "--out", str(dump))
    assert exported.returncode == 0, exported.stderr
    assert dump.stat().st_size > 0
    listed = realm.call(by_keytab(realm.keytab), "groups")
    assert GROUP in listed.stdout, listed.stderr


@needs_kerberos
@pytest.mark.kafka
def test_who_stays_on_comes_in(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in realm.server.environment.items():
        monkeypatch.setenv(name, value)
    watch = realm.arguments(by_keytab(realm.keytab), "watch", "--port", "0")
    with command(tmp_path, *watch) as process:
        page = wait_for(process, tmp_path, r"http://\S+").split("dashboard: ")[1].split()[0]

        def groups() -> str:
            with urllib.request.urlopen(f"{page}api/v1/groups", timeout=30) as answer:
                return str(answer.read().decode())

        wait_until(lambda: f'"{GROUP}"' in groups(), message=groups)


@needs_kerberos
@pytest.mark.kafka
def test_what_is_wrong_is_told_in_a_sentence(realm: Realm, tmp_path: Path) -> None:
    """A keytab that is not there, a principal that is not, keys that are no more the server's, and no ticket."""
    old = realm.server.keytab(f"other@{REALM}")
    realm.server.keytab(f"other@{REALM}")
    login, explain = 'useKeyTab=true keyTab="{}" principal="{}"', ("explain", "--group", GROUP)
    for command_line, wrong, sentence in (
        (explain, login.format(tmp_path / "none", USER), f"gives no ticket for '{USER}'"),
        (explain, login.format(realm.keytab, f"nobody@{REALM}"), f"gives no ticket for 'nobody@{REALM}'"),
        (explain, "useTicketCache=true", "run kinit, or name a keytab"),
        (explain, login.format(old, f"other@{REALM}"), "(Preauthentication failed): check keyTab and principal"),
        (("groups",), login.format(old, f"other@{REALM}"), "(Preauthentication failed)"),
        (("watch", "--port", "0"), login.format(old, f"other@{REALM}"), "(Preauthentication failed)"),
        (("export", "offsets-topic", "--out", str(tmp_path / "d.offsets.jsonl")), "useTicketCache=true", "run kinit"),
    ):
        result = realm.call(kafka(wrong), *command_line)
        assert result.returncode == 1, result.stdout
        (line,) = result.stderr.strip().splitlines()
        assert sentence in line


@needs_kerberos
@pytest.mark.kafka
def test_a_service_of_another_name_is_told(realm: Realm) -> None:
    result = realm.call({**by_keytab(realm.keytab), "sasl.kerberos.service.name": "kaffee"}, "explain", "--group", "g")
    (line,) = result.stderr.strip().splitlines()
    assert "not found in Kerberos database" in line
    assert "sasl.kerberos.service.name" in line


@needs_kerberos
@pytest.mark.kafka
@pytest.mark.spark
def test_coordinator_and_gateway_come_in(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's clients are Java's, and take the same properties. A gateway comes to its coordinator's topics."""
    java = f"-Djava.security.krb5.conf={realm.server.config}"
    for name, value in {**realm.server.environment, "JAVA_TOOL_OPTIONS": java}.items():
        monkeypatch.setenv(name, value)
    run = realm.arguments(by_keytab(realm.keytab), "run", "--checkpoint", str(tmp_path / "checkpoint"))
    port = free_port()
    with command(tmp_path, *run, "--metrics-port", str(port)) as process:

        def is_ready() -> bool:
            assert process.poll() is None, (tmp_path / "err").read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=30) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        wait_until(is_ready, START_TIMEOUT_S, lambda: (tmp_path / "err").read_text())
        gateway = realm.arguments(by_keytab(realm.keytab), "gateway", "--listen", f"127.0.0.1:{free_port()}")
        coordinators = [each.replace("--kafka=", "--coordinator-kafka=") for each in gateway]
        coordinators[coordinators.index("--bootstrap-servers")] = "--coordinator-bootstrap-servers"
        (tmp_path / "gateway").mkdir()
        with command(tmp_path / "gateway", *coordinators, "--bootstrap-servers", realm.open_servers) as other:
            wait_for(other, tmp_path / "gateway", "The gateway is ready")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: process.poll() is not None, STOP_TIMEOUT_S)
