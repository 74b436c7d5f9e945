"""Training that continues after faults."""
