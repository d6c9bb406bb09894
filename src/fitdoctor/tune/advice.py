"""How to write settings into a script: which argument goes where."""

from __future__ import annotations

from fitdoctor.tune.seen import Seen
from fitdoctor.tune.settings import Settings


def lines(settings: Settings, own: Seen) -> list[str]:
    """Return one line for each setting."""
    loader = own.about.get("adapter")
    written = {
        "steps_per_execution": "model.compile(..., steps_per_execution={})",
        "jit_compile": "model.compile(..., jit_compile={})",
        "workers": "DataLoader(..., num_workers={}, persistent_workers=True)"
        if loader == "DataLoader"
        else "workers={} in the constructor of the PyDataset: super().__init__(workers={})",
        "prefetch": "dataset = dataset.prefetch(tf.data.AUTOTUNE), as the last operator",
        "batch_size": "dataset.batch({})" if loader == "tf.data" else "model.fit(..., batch_size={})",
        "precision": 'keras.config.set_dtype_policy("{}"), before the model is made',
        "backend": 'os.environ["KERAS_BACKEND"] = "{}", before keras is imported; or in the environment',
    }
    return [
        written[name].replace("{}", str(value)) + _more(name, value, own) for name, value in settings.data().items()
    ]


def _more(name: str, value: object, own: Seen) -> str:
    if name != "batch_size" or not isinstance(value, int) or not own.about.get("batch_size"):
        return ""
    times = value / int(own.about["batch_size"])
    return f", and {times:g} times the learning rate (trials scaled it with the batch)"
