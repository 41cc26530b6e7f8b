"""What every long-running process shows of itself: metrics, health, logs."""
