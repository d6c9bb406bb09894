"""Which scripts can run on one backend only."""

from __future__ import annotations

import pytest

from fitdoctor.tune import pinned


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import os\nos.environ['KERAS_BACKEND'] = 'jax'\nimport keras\n", "chooses its backend itself (train.py:2)"),
        ("import keras\nkeras.config.set_backend('jax')\n", "chooses its backend itself"),
        ("import tensorflow as tf\nx = tf.constant(1)\n", "it calls tensorflow by name (train.py:2)"),
        ("import torch\nx = torch.ones(3)\n", "it calls torch by name"),
        ("from tensorflow import keras\n", "it calls tensorflow by name"),
        ("import jax.numpy as jnp\n", "it calls jax by name"),
        ("from jax import numpy\n", "it calls jax by name"),
    ],
)
def test_a_script_that_names_its_backend(text: str, reason: str) -> None:
    assert reason in pinned.why({"/home/me/train.py": text})


@pytest.mark.parametrize(
    "text",
    [
        "import keras\nimport numpy as np\n",
        "import tensorflow as tf\ndata = tf.data.Dataset.range(3)\n",
        "from torch.utils.data import DataLoader\n",
        "import torch\nloader = torch.utils.data.DataLoader([1])\n",
        "import tensorflow.data\n",
        "not python at all",
    ],
)
def test_data_of_a_framework_feeds_any_backend(text: str) -> None:
    assert pinned.why({"train.py": text, "redacted.py": None}) == ""
