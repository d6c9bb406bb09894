"""What everybody says about slow Keras trainings: one claim per file.

The first line of a module's docstring is the claim, the rest says what is compared.  `cases()` yields what the claim is
tried on, as two functions: `before`, said to be slow, and `after`, said to be faster.  Both run one short block and
return how much work it did, in units of their own choice (steps, samples, calls).  `SAID` lists where it is said.
"""
