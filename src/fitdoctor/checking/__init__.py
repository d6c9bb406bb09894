"""Suspicions from the source alone: which files, what their comments silence, what the rules find in them."""
