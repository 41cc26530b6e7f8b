"""What `spark-submit` runs: the command `group-coordinator` with the arguments that follow. See docs/operations.md."""

from group_coordinator.command_line.main import main

if __name__ == "__main__":
    main()
