"""Where notifications are kept: `base` is what each part sees, SQLite and PostgreSQL implement it."""
