"""Trains on rows of an HDF5 file and objects of an HTTP server, and prints what must not change."""

import hashlib
import http.client
import http.server
import threading

import h5py
import keras
import numpy as np

x = np.random.default_rng(3).standard_normal((64, 8)).astype("float32")
with h5py.File("rows.h5", "w") as made:
    made.create_dataset("x", data=x, chunks=(16, 8))
rows = h5py.File("rows.h5", "r")["x"]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = x[int(self.path[1:]), :1].tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def fetched(row):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", f"/{row}")
    body = connection.getresponse().read()
    connection.close()
    return np.frombuffer(body, "float32")


class Data(keras.utils.PyDataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        chosen = [(7 * (4 * index + i)) % 64 for i in range(4)]
        return np.stack([rows[row] for row in chosen]), np.stack([fetched(row) for row in chosen])


keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(Data(), epochs=3, shuffle=False, verbose=2).history
print([float(loss).hex() for loss in history["loss"]])
print(hashlib.sha256(b"".join(np.ascontiguousarray(w).tobytes() for w in model.get_weights())).hexdigest())
server.shutdown()
