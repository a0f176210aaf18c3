"""Alembic's entry: the connection and the tables' metadata arrive through the configuration's attributes."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("metadata"),
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
