"""Render a report; never compute."""
