"""How the tables came to be: Alembic revisions that spell out every table and import nothing of ours."""
