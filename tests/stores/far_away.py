"""A TCP proxy that puts a server far away: every request travels for a while, bytes come no faster than allowed.

    python far_away.py PORT --latency-ms 20 --bytes-per-second 50000000

Prints the port it listens on.  Connections are kept open as the two sides wish; what follows an answer is a new
request.
"""

from __future__ import annotations

import argparse
import asyncio

PACKET = 1460
TICK = 0.002
"""Shorter rests than this a loop cannot keep: a fast line sends more than a packet at a time."""


class Far:
    """What all connections share."""

    def __init__(self, port: int, latency: float, rate: float) -> None:
        self.port, self.latency, self.rate = port, latency, rate
        self.free_at = 0.0
        self.piece = max(PACKET, int(rate * TICK))

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        answered = [True]
        both = (self.requests(reader, back, answered), self.answers(there, writer, answered))
        await asyncio.gather(*both, return_exceptions=True)

    async def requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: list[bool]) -> None:
        try:
            while data := await reader.read(1 << 16):
                if answered[0]:
                    answered[0] = False
                    await asyncio.sleep(self.latency)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: list[bool]) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await reader.read(1 << 16):
                answered[0] = True
                for start in range(0, len(data), self.piece):
                    piece = data[start : start + self.piece]
                    # One line for all connections: their bytes come one after the other.
                    self.free_at = max(self.free_at, loop.time()) + len(piece) / self.rate
                    await asyncio.sleep(max(0.0, self.free_at - loop.time()))
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.close()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--bytes-per-second", type=float, default=1e12)
    args = parser.parse_args()
    far = Far(args.port, args.latency_ms / 1e3, args.bytes_per_second)
    server = await asyncio.start_server(far.connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
