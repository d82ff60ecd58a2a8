"""The service: what other programs, open pages, readers of mails and operators ask of notifications, over HTTP."""
