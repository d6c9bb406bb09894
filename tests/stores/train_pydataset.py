"""Tell two kinds of pictures in a bucket apart, with a PyDataset."""

import io
import os
import sys
import time

import boto3
import botocore.config
import keras
import numpy as np
from PIL import Image

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
s3 = boto3.client("s3", config=botocore.config.Config(max_pool_connections=64))


class Photos(keras.utils.PyDataset):
    def __init__(self, keys, **kwargs):
        super().__init__(**kwargs)
        self.keys = keys

    def __len__(self):
        return len(self.keys) // 8

    def fetch(self, key):
        body = s3.get_object(Bucket="photos", Key=key)["Body"].read()
        return np.asarray(Image.open(io.BytesIO(body)), "float32") / 255.0

    def __getitem__(self, index):
        keys = self.keys[8 * index : 8 * index + 8]
        return np.stack([self.fetch(key) for key in keys]), np.array([int("/odd/" in key) for key in keys])


listed = s3.list_objects_v2(Bucket="photos", Prefix="train/")["Contents"]
data = Photos([each["Key"] for each in listed])

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(8, 3), keras.layers.Flatten(),
                          keras.layers.Dense(1)])  # fmt: skip
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
start = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=0)
print(f"trained in {time.perf_counter() - start:.2f} s", os.getpid())
