"""The image of `watch` alone, beside Kafka's: small, not root, and it shows a group."""

from __future__ import annotations

import urllib.request

from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from tests.docker import consumer
from tests.docker.engine import BASE_IMAGE, PATIENT, SERVERS, wait_until_healthy
from tests.waiting import wait_until

OURS_MAX_BYTES = 75_000_000
"""Upon the base, whose own 125 MB leave 200 MB for the whole."""


def test_its_size(watch_image: str) -> None:
    images = DockerClient(**PATIENT).client.images
    ours, base = (images.get(name).attrs["Size"] for name in (watch_image, BASE_IMAGE))
    assert ours - base < OURS_MAX_BYTES


def test_it_shows_a_group(watch_image: str, network: Network, servers: str) -> None:
    consumer.create_topic(servers)
    command = ["watch", "--bootstrap-servers", SERVERS, "--host", "0.0.0.0", "--state", "/data/state"]
    made = DockerContainer(watch_image, PATIENT, network=network, init=True).with_exposed_ports(8450)
    made = made.with_env("GROUP_COORDINATOR_DASHBOARD_TOKEN", "token").with_command(command)
    with consumer.kafka_client(servers) as client:
        consumer.wait_for_partitions(client)
        with made as started:
            wait_until_healthy(started.get_wrapped_container())
            assert started.exec(["id", "-u"]).output.strip() == b"10001"
            assert started.exec(["which", "java"]).exit_code != 0
            address = f"http://{started.get_container_host_ip()}:{started.get_exposed_port(8450)}/api/v1/groups"
            wait_until(lambda: "kafka-readers" in asked(address))


def asked(address: str) -> str:
    request = urllib.request.Request(address, headers={"Authorization": "Bearer token"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
    return text
