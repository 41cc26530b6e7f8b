"""Consumer groups (KIP-848): the coordinator assigns, and the members reconcile one by one."""
