"""`leaseway demo`: a server, two workers and a producer, real processes on this machine, watched live."""
