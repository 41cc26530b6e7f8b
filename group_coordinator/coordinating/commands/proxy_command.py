"""The commands `gateway` and `tap` serve between clients and brokers until they are asked to stop."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.coordinating.gateway.config import ProxySettings
from group_coordinator.coordinating.operations.gateway_metrics import GatewayHealth, gateway_values, incomplete_lists
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import published_metrics
from group_coordinator.watching.narrative import words

if TYPE_CHECKING:
    from group_coordinator.coordinating.gateway.proxy_server import ProxyServer

LINE_INTERVAL_S = 60.0
_POLL_S = 0.2


def serve(
    settings: ProxySettings,
    output: CommandOutput,
    proxy: ProxyServer,
    introduce: Callable[[], None],
    line: Callable[[], str],
) -> None:
    """Start it, say so by `introduce`, and now and then how it is going by `line`; until somebody asks for the end,
    or a failure."""
    with ExitStack() as stack:
        stop = stack.enter_context(stop_requested())
        metrics = Metrics(())
        metrics.values_from(lambda: gateway_values(proxy.metrics))
        published = published_metrics(
            settings, metrics.registry, GatewayHealth(lambda: proxy.is_ready), settings.listen,
            degraded=lambda: incomplete_lists(proxy.metrics),
        )  # fmt: skip
        for sentence in stack.enter_context(published):
            output.write(sentence)
        stack.enter_context(proxy)
        gc.collect()
        gc.freeze()  # what is there now stays: to look through it would hold up clients for 60 ms, now and then
        introduce()
        last_text, next_line_s = "", time.monotonic() + LINE_INTERVAL_S
        while not stop.wait(_POLL_S):
            proxy.check()
            if time.monotonic() >= next_line_s:
                next_line_s += LINE_INTERVAL_S
                text = line()
                if text != last_text:
                    output.write(text)
                    last_text = text
    output.write("Stopped.")


def clients(proxy: ProxyServer) -> str:
    """Return the number of connections, in words."""
    return words.count(proxy.metrics.connections_open, "connection")
