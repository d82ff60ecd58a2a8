"""`leaseway-notify demo`: everything on this machine, for people to watch."""
