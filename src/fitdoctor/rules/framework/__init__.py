"""The step is not what you think runs."""
