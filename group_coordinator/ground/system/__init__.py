"""What is asked of the operating system: how memory is kept, and who gets a processor."""
