"""The group "image": an import of 1 GiB, beside `podman load` of the same archive on the same disk."""
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import driver
import atoll  # pylint: disable=wrong-import-order

ROUNDS, LAYERS, MIB = 3, 4, 1 << 20
ARCHIVE = f'of an OCI archive with {LAYERS} layers of 256 MiB, '
ROWS = [driver.row('import', f'`atoll image import` {ARCHIVE}gzip', 's',
                   {'at_most': 1, 'over': 'image/podman load'}),
        driver.row('podman load', 'the same archive, into an overlay storage of its own', 's'),
        driver.row('import, uncompressed', f'`atoll image import` {ARCHIVE}plain', 's',
                   {'at_most': 1, 'over': 'image/podman load, uncompressed'}),
        driver.row('podman load, uncompressed', 'the same archive', 's')]


def fill(layer, seed):
    """256 MiB of which half repeats itself: 4,096 small files, and 12 that are large."""
    numbers = random.Random(seed)
    layer = layer / f'opt/layer{seed}'
    for directory in range(64):
        place = layer / f'd{directory}'
        place.mkdir(parents=True)
        for number in range(64):
            (place / f'f{number}').write_bytes(numbers.randbytes(8 << 10) + b'word' * (2 << 10))
    for number in range(12):
        large = b''.join(numbers.randbytes(8 << 10) + b'word' * (2 << 10) for _ in range(1024))
        (layer / f'large{number}').write_bytes(large)


def make(compressed):
    """The archive; made once."""
    archive = atoll.BUILD / f'archives/gibibyte{"" if compressed else "-plain"}.tar'
    if archive.exists():
        return archive
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as place:
        layers = [pathlib.Path(place, f'{number}') for number in range(LAYERS)]
        for number, layer in enumerate(layers):
            fill(layer, number)
        new = archive.with_suffix('.new')
        subprocess.run([sys.executable, '-B', atoll.TOP / 'images/recipes/oci_archive.py', '--output', new,
                        '--name', 'gibibyte:1', *([] if compressed else ['--no-gzip']), *layers],
                       check=True, stdout=sys.stderr)
        new.rename(archive)
    return archive


def seconds(what):
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def load(archive):
    """By podman, with nothing of what it has loaded before."""
    place = tempfile.mkdtemp(dir='/var/tmp', prefix='bench')
    podman = ['podman', '--root', f'{place}/root', '--runroot', f'{place}/run', '--storage-driver', 'overlay']
    try:
        return seconds(lambda: subprocess.run([*podman, 'load', '-q', '-i', archive], check=True,
                                              stdout=subprocess.DEVNULL))
    finally:
        subprocess.run([*podman, 'system', 'reset', '--force'], check=False, capture_output=True)
        shutil.rmtree(place, ignore_errors=True)


def bring(daemon, archive):
    took = seconds(lambda: subprocess.run([atoll.BUILD / 'atoll', 'image', 'import', archive, '--name',
                                           'gibibyte:1'], check=True, env=daemon.client_env(),
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    daemon.request('DELETE', '/v1/images/gibibyte:1')
    daemon.request('POST', '/v1/images/prune')
    return took


def measure(take):
    with atoll.Daemon() as daemon:
        for compressed, end in ((True, ''), (False, ', uncompressed')):
            if not take.wants(f'import{end}', f'podman load{end}'):
                continue
            archive = make(compressed)
            for _ in range(take.samples or ROUNDS):
                # Read once, so that neither is the one that waits for the disk.
                subprocess.run(['cat', archive], check=True, stdout=subprocess.DEVNULL)
                take.add(f'podman load{end}', load(archive))
                take.add(f'import{end}', bring(daemon, archive))


if __name__ == '__main__':
    driver.Take('image', lambda _: ROWS).run(measure)
