"""What other coordinators did: Kafka's request logs and recorded histories, imported as events and compared."""
