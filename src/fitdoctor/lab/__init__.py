"""Controlled experiments inside the run."""
