"""The consumer side on the event topics: a group member that joins, leads, syncs, beats, commits and leaves."""
