"""What a user lays down over a whole run: retries, quarantine, expectations and budgets."""
