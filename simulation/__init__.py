"""Whole worlds run in one process, without Spark: members with faults, a log, a driver that crashes, and checks of all
of it.

A seed stands for a world (`scenario`, `generate`, `world`): processes with members of
`group_coordinator/coordinating/members/`, a network, a broker, and for each shard a ticker and a driver that works as
the Spark operator does. It gives a log. In half of the worlds the members use both protocols, or migrate (`Migrate`).

The `checker` handles that log once, one record after another, and asks the `rules` after every step what is wrong. At
the end the drivers' outputs, with their batches, crashes and repetitions, must be the checker's to the byte. No member
that could send may have been expired, and every group must have settled. Whether an answer is Kafka's is asked of
Kafka's own classes, in `tests/verify_history` and `tests/beside_kafka`.

`python -m simulation --seeds 5000` runs many cases; `--seed N --story` tells one in plain words, made as small as it
can be (`shrink`). A random draw depends only on the seed and on its question (`random_streams`), so a case can lose a
part and keep the rest.
"""
