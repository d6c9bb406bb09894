"""Inputs built again, better: what `fitdoctor.optimize` returns and what the lab measures before anything is promised.

A rewrite never edits what it is given: it builds a new dataset out of the user's own functions and arguments.  It is
accepted only after its batches were compared with those of the original.
"""
