"""What kind of file system a path lies on: a disk of this machine, a network, a program."""

from __future__ import annotations

import os
from pathlib import Path

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "glusterfs", "9p", "beegfs", "afs"})


def kind_of(path: str, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the mount a path lies on, as the system names it; None where it does not say."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    best, kind = "", None
    for line in lines:
        fields = line.split(" ")
        # Spaces and the like stand there as octal numbers.
        place = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n") if len(fields) > 2 else ""
        inside = real == place or real.startswith(f"{place.rstrip('/')}/")
        if place and inside and len(place) >= len(best):
            best, kind = place, fields[2]
    return kind


def is_remote(kind: str | None) -> bool:
    """Tell whether each access goes over a network, or through a program that usually does."""
    return kind is not None and (kind in _NETWORK or kind.startswith("fuse"))
