"""How commands are set: settings are loaded by name, and the ones that every reader of Kafka has are here.

`loading` takes them from flags, environment and a file; `connection` is a cluster and the prefix of our topics.
"""
