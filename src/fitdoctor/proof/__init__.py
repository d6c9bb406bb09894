"""Whether a change really made a training faster, and left the learning alone: interleaved runs in fresh processes."""
