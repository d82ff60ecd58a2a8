"""`leaseway bench`: what a server does on this machine. It runs beside the server and is no part of it."""
