"""The soak: many groups with churn, for as long as asked, and what the coordinator uses meanwhile."""
