"""Causes on the device: where it computes and in what precision."""
