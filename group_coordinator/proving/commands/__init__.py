"""The commands that play a log again, or try the whole on this machine."""
