"""The JavaScript client, as files that `importlib.resources.files("leaseway_javascript")` finds. No Python is here."""
