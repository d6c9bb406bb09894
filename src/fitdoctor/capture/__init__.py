"""Run the script, keep what the probes saw in one file."""
