"""The Kafka versions that are recorded, and the jars of each, from Maven Central. A further version is a line here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from group_coordinator.coordinating.jars.resolving import JarsProgress
from tests.kafka_programs import declared_jars

VERSIONS = ("2.8.2", "3.4.1", "3.7.2", "3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1", "4.4.0")
_RELOAD4J = ("slf4j-reload4j", "org.slf4j", "1.7.36")
_LOG4J2 = ("log4j-slf4j-impl", "org.apache.logging.log4j", "2.25.4")
_IVY = """<ivy-module version="2.0">
  <info organisation="group-coordinator" module="kafka-{version}"/>
  <configurations><conf name="broker"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="broker->master,runtime"/>
    <dependency org="{logging[1]}" name="{logging[0]}" rev="{logging[2]}" conf="broker->master,runtime"/>
    <exclude module="slf4j-log4j12"/>
    <exclude org="log4j"/>
  </dependencies>
</ivy-module>
"""
_JARS_EXPECTED = 50


class Version(NamedTuple):
    """A Kafka version, as its numbers."""

    text: str

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(map(int, self.text.split(".")))

    @property
    def has_zookeeper(self) -> bool:
        """KRaft of before 3.3 was no production system: no transactions, no new partitions."""
        return self.numbers < (3, 3)

    @property
    def has_log4j2(self) -> bool:
        return self.numbers >= (4, 0)

    @property
    def has_consumer_protocol(self) -> bool:
        """KIP-848, without settings."""
        return self.numbers >= (4, 0)

    def jars(self) -> list[Path]:
        """Return the class path of the broker and its logging. Raises JarsError or JavaError."""
        declared = _IVY.format(version=self.text, logging=_LOG4J2 if self.has_log4j2 else _RELOAD4J)
        progress = JarsProgress(_JARS_EXPECTED, f"Kafka {self.text}")
        return declared_jars(f"kafka-{self.text}", declared, "broker", progress)


def versions(wanted: str) -> list[Version]:
    """Return the versions that a list names, as `3.4,4.0.1`; empty: all."""
    names = [name for name in wanted.split(",") if name]
    found = [next((text for text in VERSIONS if text == name or text.startswith(f"{name}.")), name) for name in names]
    return [Version(text) for text in found or VERSIONS]
