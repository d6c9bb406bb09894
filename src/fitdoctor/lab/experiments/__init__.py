"""Experiments: one module each, found by walking this package.

NAME                              what it tries, in words
worth(seen) -> float              how much the answer could change the diagnosis; 0: the question does not arise
comparisons(job, seen)            what to run, in turns with the job as it is
learned(job, seen) -> Seen        what is known once it ran, by which the others are weighed anew
FIRST = True                      where the worth of the others depends on that
TRAINS = False                    where it reads the input only: it needs no copy of the model's state
"""
