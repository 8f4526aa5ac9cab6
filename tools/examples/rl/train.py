"""Trains a policy by the cross-entropy method, each candidate in a sandbox of its own.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… train.py [SANDBOXES] [ROUNDS] [VOLUME]

What it has learned is kept on that volume after each round, and is what it goes on from.
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
from opensandbox.models.sandboxes import PVC, Volume

ROLLOUT = pathlib.Path(__file__).with_name('cartpole.py')
BEST = 0.2  # of the candidates make the next round
PERFECT = 1500  # three episodes of 500 steps
CHECKPOINT = '/checkpoint/policy.json'
CONFIG = ConnectionConfig(domain=os.environ['SANDBOX_DOMAIN'],
                          api_key=os.environ.get('SANDBOX_API_KEY', ''),
                          request_timeout=datetime.timedelta(minutes=2))


async def worker(volume):
    """A sandbox with the environment in it, and with the volume, if one is named."""
    volumes = [Volume(name='checkpoint', mount_path='/checkpoint', pvc=PVC(claim_name=volume))] if volume else None
    box = await Sandbox.create(os.environ.get('SANDBOX_IMAGE', 'python:3.11'),
                               connection_config=CONFIG, timeout=datetime.timedelta(minutes=10),
                               ready_timeout=datetime.timedelta(minutes=2),
                               resource={'cpu': '1', 'memory': '128Mi', 'pids': '32'},
                               entrypoint=['sleep', 'infinity'], volumes=volumes)
    await box.files.write_file('/tmp/cartpole.py', ROLLOUT.read_text(encoding='utf-8'))
    return box


async def reward(box, weights, seed):
    """And the seconds of processor that it took. What a sandbox says is believed of its own candidate
    alone, and only if it is numbers."""
    done = await box.commands.run(f"python3 /tmp/cartpole.py '{json.dumps(weights)}' {seed}")
    if done.error:
        raise RuntimeError(f'{box.id}: {done.error.value}')
    earned, seconds = ''.join(line.text for line in done.logs.stdout).split()
    return int(earned), float(seconds)


async def known(box):
    """The round, and the middle and width that it ended with; those of the beginning where nothing is kept."""
    done = await box.commands.run(f'cat {CHECKPOINT}')
    if done.error:
        return 0, [0.0] * 4, [1.0] * 4
    return json.loads(''.join(line.text for line in done.logs.stdout))


async def keep(box, state):
    """All of it or nothing: what is half written has another name."""
    await box.files.write_file(f'{CHECKPOINT}.new', json.dumps(state))
    await box.commands.run(f'mv {CHECKPOINT}.new {CHECKPOINT}')


async def train(boxes, rounds, chance, kept):
    """What is learned; with `kept`, the first sandbox has the volume."""
    first, middle, width = await known(boxes[0]) if kept else (0, [0.0] * 4, [1.0] * 4)
    if first:
        print(f'goes on after round {first}', flush=True)
    for number in range(first + 1, first + rounds + 1):
        begin = time.monotonic()
        tried = [[chance.gauss(m, w) for m, w in zip(middle, width)] for _ in boxes]
        told = await asyncio.gather(*(reward(box, weights, number) for box, weights in zip(boxes, tried)))
        rewards, seconds = zip(*told)
        ranked = sorted(zip(rewards, tried), reverse=True)[:max(2, int(len(boxes) * BEST))]
        columns = list(zip(*(weights for _, weights in ranked)))
        middle = [statistics.mean(column) for column in columns]
        width = [statistics.stdev(column) + 0.05 for column in columns]
        took = time.monotonic() - begin
        print(f'round {number}: mean {statistics.mean(rewards):.0f} best {max(rewards)} of {PERFECT}, '
              f'{took:.1f} s, {sum(seconds) / took:.1f} processors busy', flush=True)
        if kept:
            await keep(boxes[0], (number, middle, width))
    earned, _ = await reward(boxes[0], middle, first + rounds + 1)
    print('policy', ' '.join(f'{one:.2f}' for one in middle), 'earns', earned)


async def main(count, rounds, volume):
    begin = time.monotonic()
    # All are asked for at once, and none outlives this program's end, whichever it is.
    boxes = await asyncio.gather(*(worker(volume if number == 0 else None) for number in range(count)),
                                 return_exceptions=True)
    failed = [one for one in boxes if isinstance(one, BaseException)]
    boxes = [one for one in boxes if not isinstance(one, BaseException)]
    try:
        if failed:
            raise failed[0]
        took = time.monotonic() - begin
        print(f'{count} sandboxes in {took:.1f} s, {count / took:.0f} a second', flush=True)
        await train(boxes, rounds, random.Random(1), volume)
    finally:
        await asyncio.gather(*(box.kill() for box in boxes), return_exceptions=True)
        await asyncio.gather(*(box.close() for box in boxes), return_exceptions=True)


if __name__ == '__main__':
    COUNT, ROUNDS, VOLUME = [*sys.argv[1:], *(64, 4, None)[len(sys.argv) - 1:]]
    asyncio.run(main(int(COUNT), int(ROUNDS), VOLUME))
