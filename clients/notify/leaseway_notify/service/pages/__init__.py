"""The files of the service's pages: scripts, styles and templates. Which path leads to which is `static.py`'s."""
