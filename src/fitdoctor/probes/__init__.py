"""Observe a live run, one file per signal."""
