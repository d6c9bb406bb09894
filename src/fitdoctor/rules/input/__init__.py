"""The data does not arrive in time."""
