"""Trains a policy by the cross-entropy method, each candidate in a sandbox of its own.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… train.py [SANDBOXES] [ROUNDS]
"""
import asyncio
import datetime
import json
import os
import pathlib
import random
import statistics
import sys
import time

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig

ROLLOUT = pathlib.Path(__file__).with_name('cartpole.py')
BEST = 0.2  # of the candidates make the next round
PERFECT = 1500  # three episodes of 500 steps
CONFIG = ConnectionConfig(domain=os.environ['SANDBOX_DOMAIN'],
                          api_key=os.environ.get('SANDBOX_API_KEY', ''),
                          request_timeout=datetime.timedelta(minutes=2))


async def worker():
    """A sandbox with the environment in it."""
    box = await Sandbox.create(os.environ.get('SANDBOX_IMAGE', 'python:3.11'),
                               connection_config=CONFIG, timeout=datetime.timedelta(minutes=10),
                               ready_timeout=datetime.timedelta(minutes=2),
                               resource={'cpu': '1', 'memory': '128Mi', 'pids': '32'},
                               entrypoint=['sleep', 'infinity'])
    await box.files.write_file('/tmp/cartpole.py', ROLLOUT.read_text(encoding='utf-8'))
    return box


async def reward(box, weights, seed):
    """What a sandbox says is believed of its own candidate alone, and only if it is a number."""
    done = await box.commands.run(f"python3 /tmp/cartpole.py '{json.dumps(weights)}' {seed}")
    if done.error:
        raise RuntimeError(f'{box.id}: {done.error.value}')
    return int(''.join(line.text for line in done.logs.stdout))


async def main(count, rounds):
    begin, chance = time.monotonic(), random.Random(1)
    # All are asked for at once, and none outlives this program's end, whichever it is.
    boxes = await asyncio.gather(*(worker() for _ in range(count)), return_exceptions=True)
    failed = [one for one in boxes if isinstance(one, BaseException)]
    boxes = [one for one in boxes if not isinstance(one, BaseException)]
    try:
        if failed:
            raise failed[0]
        print(f'{count} sandboxes in {time.monotonic() - begin:.1f} s', flush=True)
        middle, width = [0.0] * 4, [1.0] * 4
        for number in range(1, rounds + 1):
            begin = time.monotonic()
            tried = [[chance.gauss(m, w) for m, w in zip(middle, width)] for _ in boxes]
            rewards = await asyncio.gather(
                *(reward(box, weights, number) for box, weights in zip(boxes, tried)))
            ranked = sorted(zip(rewards, tried), reverse=True)[:max(2, int(count * BEST))]
            columns = list(zip(*(weights for _, weights in ranked)))
            middle = [statistics.mean(column) for column in columns]
            width = [statistics.stdev(column) + 0.05 for column in columns]
            print(f'round {number}: mean {statistics.mean(rewards):.0f} best {max(rewards)} of {PERFECT}, '
                  f'{time.monotonic() - begin:.1f} s', flush=True)
        print('policy', ' '.join(f'{one:.2f}' for one in middle),
              'earns', await reward(boxes[0], middle, rounds + 1))
    finally:
        await asyncio.gather(*(box.kill() for box in boxes), return_exceptions=True)
        await asyncio.gather(*(box.close() for box in boxes), return_exceptions=True)


if __name__ == '__main__':
    COUNT, ROUNDS = [*map(int, sys.argv[1:]), *(64, 4)[len(sys.argv) - 1:]]
    asyncio.run(main(COUNT, ROUNDS))
