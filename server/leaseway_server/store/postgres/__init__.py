"""The PostgreSQL store. Needs asyncpg, which the extra `postgres` installs."""
