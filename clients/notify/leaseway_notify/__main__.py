"""`python -m leaseway_notify`: the command line."""

from leaseway_notify.cli import main

main()
