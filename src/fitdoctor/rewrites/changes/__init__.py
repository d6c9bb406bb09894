"""The changes there are, one module each, found by walking.

A module has `candidates(dataset, seen)`, which yields a `Candidate` for every place where the change would keep what
the pipeline promises, and a `Refusal` with the reason where it would not.
"""
