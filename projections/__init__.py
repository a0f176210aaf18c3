"""What it means: pure folds over the log, budgets, stored projections and the queries that dashboards call."""
