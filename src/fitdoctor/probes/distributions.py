"""Under which names the frameworks come."""

from __future__ import annotations

from collections.abc import Mapping

DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "tensorflow": (
        "tensorflow",
        "tensorflow-cpu",
        "tensorflow-intel",
        "tensorflow-macos",
        "tf-nightly",
        "tf-nightly-cpu",
        "tensorflow-gpu",
    ),
    "jax": ("jax",),
    "torch": ("torch",),
}
"""Import name → names on the package index under which it comes."""

PLUGINS = (
    "jaxlib",
    "jax-cuda13-plugin",
    "jax-cuda12-plugin",
    "jax-rocm60-plugin",
    "jax-metal",
    "tensorflow-metal",
)
