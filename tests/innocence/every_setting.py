"""Trains under settings that few scripts have, and in ways that few scripts train; prints what must not change.

Each case is a function; those named on the command line run, all of one process's own backend by default.
"""

import hashlib
import sys
import threading

import keras
import numpy as np

BACKEND = keras.config.backend()
CASES = {}


def case(*backends):
    def keep(function):
        if not backends or BACKEND in backends:
            CASES[function.__name__] = function
        return function

    return keep


def arrays(rows=160, columns=8):
    x = np.random.default_rng(3).standard_normal((rows, columns)).astype("float32")
    return x, x[:, :1] * 2 - x[:, 1:2]


def network(**compiled):
    keras.utils.set_random_seed(11)
    layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    model.compile(**{"optimizer": "adam", "loss": "mse", **compiled})
    return model


def digest(model):
    weights = b"".join(np.ascontiguousarray(each, "float32").tobytes() for each in model.get_weights())
    return hashlib.sha256(weights).hexdigest()[:24]


def plain_fit(model=None, **given):
    model = model or network()
    x, y = arrays()
    history = model.fit(**{"x": x, "y": y, "batch_size": 16, "epochs": 2, "verbose": 0, **given})
    return {name: [float(each).hex() for each in values] for name, values in history.history.items()}, digest(model)


# --- what is configured -------------------------------------------------------------------------------


@case()
def bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        return plain_fit()
    finally:
        keras.config.set_dtype_policy("float32")


@case()
def float64():
    keras.config.set_floatx("float64")
    try:
        return plain_fit()
    finally:
        keras.config.set_floatx("float32")


@case("tensorflow")
def loss_scaling():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return plain_fit()
    finally:
        keras.config.set_dtype_policy("float32")


@case()
def accumulated_gradients_and_averages():
    return plain_fit(network(optimizer=keras.optimizers.SGD(0.01, gradient_accumulation_steps=3, use_ema=True)))


@case("tensorflow")
def functions_that_run_eagerly():
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        return plain_fit()
    finally:
        tf.config.run_functions_eagerly(False)


@case("tensorflow")
def a_strategy():
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = network()
    return plain_fit(model)


@case("tensorflow")
def ragged_text():
    import tensorflow as tf

    keras.utils.set_random_seed(11)
    words = tf.ragged.constant([[1, 2, 3], [4], [5, 6]] * 16)
    data = tf.data.Dataset.from_tensor_slices((words, np.ones((48, 1), "float32")))
    data = data.map(lambda row, target: (row, target)).ragged_batch(8).map(lambda x, y: (x.to_tensor(), y))
    layers = [keras.layers.Embedding(9, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    model.compile("adam", "mse")
    return plain_fit(model, x=data, y=None, batch_size=None)


# --- how it is trained --------------------------------------------------------------------------------


@case()
def weights_of_samples_and_classes():
    x, _ = arrays()
    labels = (x[:, 0] > 0).astype("int32")
    model = network(loss="binary_crossentropy", weighted_metrics=["accuracy"])
    return plain_fit(model, x=x, y=labels, class_weight={0: 1.0, 1: 3.0})


@case()
def several_inputs_and_outputs():
    keras.utils.set_random_seed(11)
    one, two = keras.Input((8,), name="one"), keras.Input((8,), name="two")
    both = keras.layers.Concatenate()([one, two])
    outputs = {"a": keras.layers.Dense(1, name="a")(both), "b": keras.layers.Dense(1, name="b")(both)}
    model = keras.Model({"one": one, "two": two}, outputs)
    model.compile("adam", {"a": "mse", "b": "mae"})
    x, y = arrays()
    return plain_fit(model, x={"one": x, "two": -x}, y={"a": y, "b": -y})


@case()
def a_training_inside_a_callback():
    inner = network()
    x, y = arrays()

    class Refit(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            inner.fit(x, y, batch_size=16, epochs=1, verbose=0)
            logs["inner"] = float(inner.evaluate(x, y, verbose=0))

    return plain_fit(callbacks=[Refit()]), digest(inner)


@case()
def stopped_early_and_restored():
    stop = keras.callbacks.EarlyStopping("loss", patience=0, min_delta=10.0, restore_best_weights=True)
    return plain_fit(epochs=9, callbacks=[stop])


@case()
def an_error_that_the_script_expects():
    class Late(Exception):
        pass

    class Raises(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 5:
                raise Late

    model = network()
    try:
        plain_fit(model, callbacks=[Raises()])
    except Late:
        return "late", plain_fit(model)
    return "never"


@case()
def data_that_breaks_off():
    def batches():
        x, y = arrays()
        yield x[:16], y[:16]
        raise ValueError("the tape is torn")

    model = network()
    try:
        plain_fit(model, x=batches(), y=None, batch_size=None, steps_per_epoch=4)
    except Exception as error:
        return type(error).__name__, "the tape is torn" in str(error), digest(model)
    return "never"


@case()
def batches_by_hand():
    model = network(metrics=["mae"])
    x, y = arrays()
    found = []
    for _ in range(2):
        for row in range(0, len(x), 16):
            found.append([float(each).hex() for each in model.train_on_batch(x[row : row + 16], y[row : row + 16])])
        found.append(float(np.sum(model.predict_on_batch(x[:16]))).hex())
        found.append([float(each).hex() for each in model.test_on_batch(x[:16], y[:16])])
    return found[-4:], digest(model)


@case()
def in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(plain_fit()))
    thread.start()
    thread.join()
    return found


@case()
def compiled_anew_in_between():
    model = network()
    first = plain_fit(model)
    model.compile("sgd", "mae")
    return first, plain_fit(model), plain_fit(model, initial_epoch=1, epochs=3)


@case()
def frozen_and_thawed():
    model = network()
    model.layers[0].trainable = False
    model.compile("adam", "mse")
    first = plain_fit(model)
    model.layers[0].trainable = True
    model.compile("adam", "mse")
    return first, plain_fit(model)


@case()
def a_model_of_models():
    keras.utils.set_random_seed(11)
    inner = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="relu")], name="inner")
    x = keras.Input((8,))
    model = keras.Model(x, keras.layers.Dense(1)(inner(x)))
    model.compile("adam", "mse")
    return plain_fit(model), digest(inner)


@case("tensorflow")
def a_step_of_its_own():
    import tensorflow as tf

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    keras.utils.set_random_seed(11)
    model = Own()
    model.compile("adam")
    return plain_fit(model)


@case("tensorflow")
def a_loop_of_its_own():
    import tensorflow as tf

    model = network()
    x, y = arrays()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(160, seed=1).batch(16)
    optimizer = keras.optimizers.Adam()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [float(step(x, y)).hex() for _ in range(3) for x, y in data]
    return losses[-5:], digest(model)


@case("torch")
def a_loop_on_torch():
    import torch

    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    rows = torch.utils.data.TensorDataset(*map(torch.from_numpy, arrays()))
    losses = []
    for _ in range(3):
        for x, y in torch.utils.data.DataLoader(rows, batch_size=16):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
    return losses[-5:]


@case("jax")
def a_loop_on_jax():
    import jax

    x, y = arrays()

    @jax.jit
    def step(weights, x, y):
        value, slope = jax.value_and_grad(lambda weights: ((x @ weights - y) ** 2).mean())(weights)
        return weights - 0.1 * slope, value

    weights, losses = np.zeros((8, 1), "float32"), []
    for _ in range(3):
        for row in range(0, len(x), 16):
            weights, value = step(weights, x[row : row + 16], y[row : row + 16])
            losses.append(float(value).hex())
    return losses[-5:]


chosen = sys.argv[1:] or list(CASES)
for name in chosen:
    print(name, CASES[name](), flush=True)
print("done")
