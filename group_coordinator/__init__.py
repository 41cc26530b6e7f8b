"""The command `group-coordinator` and the rooms that it is made of; see docs/architecture.md."""
