"""`tap`: a recording of the groups of a cluster that has its own coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import DryRun, Resolved, with_settings
from group_coordinator.command_line.tables import print_lines
from group_coordinator.coordinating.commands.gateway_settings import PANELS, names
from group_coordinator.coordinating.commands.proxy_command import clients, serve
from group_coordinator.coordinating.gateway.config import TapSettings
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties
from group_coordinator.watching.narrative.words import count
from streaming.topics import TopicSettings, ensure_topics

if TYPE_CHECKING:
    from group_coordinator.coordinating.gateway.tap import TapOutput


_Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write events into this new file (JSONL), the brokers' answers into FILE.answers."
    ),
]
_ToTopics = Annotated[
    str | None,
    typer.Option(
        metavar="PREFIX",
        help="Write them to the topics PREFIX.events and PREFIX.responses, made if there are none.",
    ),
]
_ToBootstrapServers = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The cluster of these topics. [default: the one that is recorded]"),
]


@with_settings(*names(TapSettings), of=TapSettings, panels=PANELS)
def tap(
    settings: Resolved[TapSettings],
    out: _Out = None,
    to_topics: _ToTopics = None,
    to_bootstrap_servers: _ToBootstrapServers = None,
    dry_run: DryRun = False,
) -> None:
    """Record the groups of any Kafka cluster, to replay and explain them: clients bootstrap here instead of at a
    broker.

    Nothing is taken out: the brokers go on coordinating the groups. What groups ask and what they are answered is
    written down as events of our format. Only clients that bootstrap at the tap are seen; it costs them a fraction of a
    millisecond a request. What a broker answers is never held back for the recording, and a recording that cannot be
    written (a full disk) ends, while clients go on; the exit code is then 1.

    It ends at Ctrl-C or SIGTERM, when all has been written. Settings come from flags, from the environment
    (`GROUP_COORDINATOR_UPSTREAM=...`) or from `--config-file tap.toml`.

    Examples:

        group-coordinator tap --listen 127.0.0.1:9192 --upstream broker:9092 --out recording.jsonl
        group-coordinator replay recording.jsonl --in-process --out replayed/
        group-coordinator explain --group payments --from replayed/
        group-coordinator tap --upstream broker:9092 --to-topics recorded
    """
    if dry_run:
        print_lines(settings.lines())
        return
    if (out is None) == (to_topics is None):
        raise CommandError("Name either --out FILE or --to-topics PREFIX.", WRONG_USE)
    from group_coordinator.coordinating.gateway.tap import Tap  # it takes its time to import

    config = settings.config
    output = CommandOutput(config.log_format, config.log_level)
    with output.log_failures():
        proxy = Tap(config, _output(config, out, to_topics, to_bootstrap_servers))
        destination, upstream = out or f"{to_topics}.events", config.upstream

        def introduce() -> None:
            output.write(f"The tap is ready: clients bootstrap at {proxy.bootstrap_servers} instead of {upstream}.")
            output.write(f"Group requests are written to {destination}.")

        serve(config, output, proxy, introduce, lambda: f"{clients(proxy)}, {count(proxy.events, 'event')} written")
        output.write(f"{count(proxy.events, 'event')} in {destination}.")
        if proxy.recording_failure is not None:
            raise CommandError(f"The recording is not complete: {proxy.recording_failure}.")
        if out is not None:
            replayed = out.with_suffix("")
            output.write(f"Replay it: group-coordinator replay {out} --in-process --out {replayed}-replayed/")


def _output(
    config: TapSettings, out: Path | None, to_topics: str | None, to_bootstrap_servers: str | None
) -> TapOutput:
    from group_coordinator.coordinating.gateway.tap import FilesOutput, TopicsOutput

    if out is not None:
        return FilesOutput(out)
    assert to_topics is not None
    properties = librdkafka_properties(
        to_bootstrap_servers or config.upstream, {} if to_bootstrap_servers else config.kafka
    )
    ensure_topics(new_admin_client(properties), TopicSettings(topic_prefix=to_topics))
    return TopicsOutput(properties, to_topics)
