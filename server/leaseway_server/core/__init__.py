"""Pure: no I/O, no clock, no chance, no `async def`."""
