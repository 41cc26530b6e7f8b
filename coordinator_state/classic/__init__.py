"""Classic groups: the protocol of JoinGroup and SyncGroup (Kafka 4.3, `ClassicGroup`)."""
