"""The dashboard: what happened in every group, to look at in a browser; live, or as one file.

It reads the history topic or what a replay wrote, never the coordinator. `serve` and `start_server` show a source
(`KafkaSource`, `ReplaySource`), `write_report` writes the same pages into one HTML file.
"""

from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.dashboard.kafka_source import KafkaSource, TopicNames
from group_coordinator.watching.dashboard.report import write_report
from group_coordinator.watching.dashboard.server import DEFAULT_PORT, RunningServer, serve, start_server
from group_coordinator.watching.dashboard.settings import DashboardSettings, HealthSettings
from group_coordinator.watching.dashboard.sources import ReplaySource, Source, SourceError
from group_coordinator.watching.dashboard.what_if import GroupPlay, ReplayFunction

__all__ = [
    "DEFAULT_PORT",
    "Change",
    "DashboardSettings",
    "GroupPlay",
    "HealthSettings",
    "KafkaSource",
    "ReplayFunction",
    "ReplaySource",
    "RunningServer",
    "Source",
    "SourceError",
    "TopicNames",
    "serve",
    "start_server",
    "write_report",
]
