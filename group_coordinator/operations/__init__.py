"""How it is run: what the process tells of itself (metrics, health, logs) to whoever operates it.

`Operations(config)` is all of it; `group_coordinator.command_line.run` hands it to the app as its watcher.
"""
