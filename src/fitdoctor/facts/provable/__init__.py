"""What the source alone proves, for edits that `fitdoctor check --fix` makes without a run; nothing where in doubt."""
