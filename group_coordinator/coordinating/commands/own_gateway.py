"""The gateway of `run`: in a thread of its process, on its cluster and topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import load_as
from group_coordinator.coordinating.answer_sockets import AnswerSocketSettings
from group_coordinator.coordinating.commands.transactions import relays, transaction_log
from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.operations.gateway_metrics import gateway_values, incomplete_lists
from group_coordinator.coordinating.operations.operations import Operations
from schemas.group_settings import OwnSettingsBounds
from schemas.settings import values_of
from streaming.config import StreamingConfig

if TYPE_CHECKING:
    from group_coordinator.coordinating.gateway.server import Gateway
    from group_coordinator.coordinating.transactions.relays import Relays


class OwnGateway:
    """Is there if it is wanted. When it cannot go on it `has_ended`, and `check` says why."""

    def __init__(self, listen: str | None, file: Path | None, *, transactions: bool = False) -> None:
        """`listen`: HOST:PORT; None: none is wanted. `file`: its further settings. `transactions`: offsets in them are
        offered in any case, by relays here. Raises CommandError, ConfigError."""
        if listen is None and transactions:
            raise CommandError("--transactions is for a gateway: say by --gateway where it listens.", WRONG_USE)
        self._flags = {"transactions": True} if transactions else {}
        if listen is None and file is not None:
            raise CommandError("--gateway-config-file is for a gateway: say by --gateway where it listens.", WRONG_USE)
        self._listen = listen
        self._file = file
        self._gateway: Gateway | None = None
        self._relays: Relays | None = None
        self._failure: GatewayError | None = None
        if listen is not None:
            self._settings({})

    @property
    def has_ended(self) -> bool:
        """True if the gateway has ended by itself, or could not start."""
        return self._failure is not None or (self._gateway is not None and not self._gateway.is_ready)

    def start(self, config: StreamingConfig, operations: Operations, output: CommandOutput) -> None:
        """Listen, on the topics of the coordinator, which exist already, and print the address."""
        if self._listen is None:
            return
        from group_coordinator.coordinating.gateway.server import Gateway  # it takes its time to import

        clusters: dict[str, object] = {
            "bootstrap_servers": config.bootstrap_servers,
            "kafka": config.kafka,
            "topic_prefix": config.topic_prefix,
            **values_of(AnswerSocketSettings, config),
            **values_of(OwnSettingsBounds, config.group),
        }
        gateway_config = self._settings(clusters)
        gateway = Gateway(
            gateway_config, ends_with_coordinator=True, transaction_log=transaction_log(gateway_config)
        )
        operations.metrics.values_from(lambda: gateway_values(gateway.metrics))
        operations.health.further.append(lambda: incomplete_lists(gateway.metrics))
        if gateway_config.transactions:
            self._relays = relays(gateway_config, config.shards, config.shards_here)
            operations.metrics.values_from(self._relays.values)
            operations.health.further.append(self._relays.sentences)
            self._relays.start()
            output.write("Offsets in transactions are relayed to the shards that run here.")
        try:
            gateway.start()
        except GatewayError as failure:
            self._failure = failure
        else:
            self._gateway = gateway
            output.write(f"The gateway is ready: Kafka clients bootstrap at {gateway.bootstrap_servers}.")

    def stop(self) -> None:
        """Let the clients go; they will come back to another gateway, or to the next."""
        if self._gateway is not None:
            self._gateway.stop()
        if self._relays is not None:
            self._relays.stop()

    def check(self) -> None:
        """Raise why it has ended, if it has."""
        if self._failure is not None:
            raise self._failure
        if self._gateway is not None:
            self._gateway.check()

    def _settings(self, flags: dict[str, object]) -> GatewaySettings:
        return load_as(GatewaySettings, {**flags, **self._flags, "listen": self._listen}, self._file).config
