"""A recording rig: real brokers of many Kafka versions, one story with real clients, and two truths to hold ours to."""
