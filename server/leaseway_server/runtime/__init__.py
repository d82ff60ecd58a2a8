"""The clock, the engine of each queue, and the hub that tells the watchers."""
