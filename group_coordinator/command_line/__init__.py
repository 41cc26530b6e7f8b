"""The command `group-coordinator`: the only place that reads arguments and the environment."""
