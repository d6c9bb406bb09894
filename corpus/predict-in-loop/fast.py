"""Learn by Q-learning to keep a cart on its track while the wind pushes it."""

import os
import random
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

ACTIONS = np.array([-1.0, 0.0, 1.0])
STEPS = 360
BATCH = 32
DISCOUNT = 0.95


class Cart:
    """A cart on a track: position, speed, wind."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.state = self.rng.normal(0, 0.3, size=3).astype("float32")
        return self.state

    def act(self, action):
        position, speed, wind = self.state
        speed = 0.9 * speed + 0.1 * (ACTIONS[action] + wind)
        wind = np.clip(wind + self.rng.normal(0, 0.05), -0.8, 0.8)
        self.state = np.array([position + 0.1 * speed, speed, wind], dtype="float32")
        return self.state, 1.0 - abs(float(self.state[0])), abs(self.state[0]) > 1


def make_model():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(len(ACTIONS)),
        ]
    )
    model.compile(keras.optimizers.Adam(0.003), "mse")
    return model


def values_of(model, states):
    """Return what the model thinks each action is worth."""
    return model.predict_on_batch(states)


def main():
    keras.utils.set_random_seed(1)
    model, cart = make_model(), Cart()
    memory, rewards = [], []
    state = cart.reset()
    start = time.perf_counter()
    for step in range(STEPS):
        if random.random() < max(0.05, 1 - step / 200):
            action = random.randrange(len(ACTIONS))
        else:
            action = int(np.argmax(values_of(model, state[None])[0]))
        after, reward, over = cart.act(action)
        memory.append((state, action, reward, after, over))
        rewards.append(reward)
        state = cart.reset() if over else after

        seen = random.choices(memory, k=BATCH)
        before, chosen, gained, then, ended = (np.array(column) for column in zip(*seen, strict=True))
        targets = values_of(model, before).copy()
        best = values_of(model, then).max(axis=1)
        targets[np.arange(BATCH), chosen] = gained + DISCOUNT * best * ~ended
        model.train_on_batch(before, targets)
    print(f"trained in {time.perf_counter() - start:.2f} s")
    print(f"mean reward of the last 100 steps: {np.mean(rewards[-100:]):.3f}")


if __name__ == "__main__":
    main()
