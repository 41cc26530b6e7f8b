"""Operators see the process through its metrics, health and logs.

`Operations(config)` is all of it; `group_coordinator.coordinating.commands.run` hands it to the app as its watcher.
"""
