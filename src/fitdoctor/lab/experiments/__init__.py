"""Experiments: one module each, found by walking this package.

NAME                              what it tries, in words
worth(seen) -> float              how much the answer could change the diagnosis; 0: the question does not arise
comparisons(job, seen)            what to run, in turns with the job as it is
TRAINS = False                    where it reads the input only: it needs no copy of the model's state
"""
