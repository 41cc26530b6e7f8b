"""This is the consumer side on the event topics: a group member joins, leads, syncs, sends heartbeats, commits and
leaves."""
