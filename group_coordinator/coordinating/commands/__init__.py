"""The commands that run the coordinator, or speak to it."""
