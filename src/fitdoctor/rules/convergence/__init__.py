"""Every step is fast, and it still takes forever."""
