"""`leaseway move`: all that a store keeps, copied into a store of the other kind while neither is served."""
