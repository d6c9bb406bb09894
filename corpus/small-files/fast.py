"""Grade tiles of a satellite map that lie in an object store, 64 tiles per object."""

import http.client
import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time

SIZE = 32
TILES = 1024
BATCH = 32
SHARD = 64
EPOCHS = 14


class Bucket(http.server.SimpleHTTPRequestHandler):
    """Stands for the object store: answers some milliseconds later, from a process of its own."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        time.sleep(0.012)  # the round trip to the object store
        super().do_GET()

    def log_message(self, *args):
        pass


if sys.argv[1:] == ["store"]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.exit(len(sys.stdin.read()))

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np


def draw_tiles(seed=0):
    rng = np.random.default_rng(seed)
    grades = rng.integers(3, size=TILES).astype("int32")
    tiles = rng.integers(0, 90, (TILES, SIZE, SIZE, 3)).astype("uint8")
    for tile, grade in zip(tiles, grades, strict=True):
        tile[:: 2 + int(grade)] += 100
    return tiles, grades


class Tiles(keras.utils.PyDataset):
    def __init__(self, port, grades, **kwargs):
        super().__init__(**kwargs)
        self.port, self.grades, self.local = port, grades, threading.local()

    def __len__(self):
        return TILES // BATCH

    def get(self, name):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.local.connection.request("GET", f"/{name}")
        return self.local.connection.getresponse().read()

    def shard(self, number):
        if getattr(self.local, "number", None) != number:
            tiles = np.frombuffer(self.get(f"{number:05d}.raw"), "uint8").reshape(SHARD, SIZE, SIZE, 3)
            self.local.number, self.local.tiles = number, tiles
        return self.local.tiles

    def __getitem__(self, index):
        first = BATCH * index
        tiles = self.shard(first // SHARD)[first % SHARD : first % SHARD + BATCH]
        return tiles.astype("float32") / 255.0, self.grades[first : first + BATCH]


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        tiles, grades = draw_tiles()
        for number in range(TILES // SHARD):
            with open(os.path.join(folder, f"{number:05d}.raw"), "wb") as file:
                file.write(tiles[SHARD * number : SHARD * (number + 1)].tobytes())
        command = [sys.executable, os.path.abspath(__file__), "store"]
        store = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        data = Tiles(int(store.stdout.readline()), grades, workers=8)
        layers = [keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.MaxPooling2D(), keras.layers.Flatten()]
        model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), *layers, keras.layers.Dense(3, "softmax")])
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        start = time.perf_counter()
        model.fit(data, epochs=EPOCHS, shuffle=False, verbose=2)
        print(f"trained in {time.perf_counter() - start:.2f} s")
        store.kill()


if __name__ == "__main__":
    main()
