"""Many captures on one local page: what each run took, how a project's runs changed, and a run that is under way.

Reads and never writes; binds to this machine alone; asks nobody for anything.
"""
