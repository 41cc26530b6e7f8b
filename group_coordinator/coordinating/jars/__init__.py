"""Java and the jars of Spark's connectors and of Kafka: found, resolved once, kept in a cache."""
