"""Causes in the model itself."""
