"""A pipeline of sandboxes: what one has installed the next start from, what one has written the next read.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… pipeline.py
"""
import contextlib
import datetime
import os
import time
import uuid

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import PVC, NetworkPolicy, Volume

CONFIG = ConnectionConfigSync(domain=os.environ['SANDBOX_DOMAIN'],
                              api_key=os.environ.get('SANDBOX_API_KEY', ''))
IMAGE = os.environ.get('SANDBOX_IMAGE', 'python:3.11')
VOLUME = f'pipeline-{uuid.uuid4().hex[:8]}'
# What the stages have in common; in a real one, packages that take long to install.
TOOL = '''
import csv, sys
def rows(path):
    with open(path) as file:
        return [(city, float(degrees)) for city, degrees in csv.reader(file)]
'''
STAGES = {
    'fetch': ('''open('/data/raw.csv', 'w').write("""oslo,4
rome,21
oslo,6
rome,500
""")''', False),
    'clean': ('''
from tool import rows
with open('/data/clean.csv', 'w') as out:
    out.writelines(f'{city},{degrees}\\n' for city, degrees in rows('/data/raw.csv') if degrees < 60)''', False),
    'report': ('''
from tool import rows
found = {}
for city, degrees in rows('/data/clean.csv'):
    found.setdefault(city, []).append(degrees)
for city, all in sorted(found.items()):
    print(city, sum(all) / len(all))''', True),
}


@contextlib.contextmanager
def sandbox(read_only=False, last=False, **wanted):
    """With the volume at /data, and nothing of the network; `last`: the volume ends with it."""
    data = Volume(name='data', mount_path='/data', read_only=read_only,
                  pvc=PVC(claim_name=VOLUME, delete_on_sandbox_termination=last))
    box = SandboxSync.create(connection_config=CONFIG, timeout=datetime.timedelta(minutes=10),
                             entrypoint=['sleep', 'infinity'], volumes=[data],
                             network_policy=NetworkPolicy(defaultAction='deny', egress=[]), **wanted)
    try:
        yield box
    finally:
        box.kill()
        box.close()


@contextlib.contextmanager
def snapshot(box):
    with SandboxManagerSync.create(connection_config=CONFIG) as manager:
        taken = box.create_snapshot(name=VOLUME)
        while (found := manager.get_snapshot(taken.id)).status.state == 'Creating':
            pass  # some milliseconds
        if found.status.state != 'Ready':
            raise RuntimeError(f'the snapshot is {found.status.state}: {found.status.message}')
        try:
            yield taken.id
        finally:
            delete(manager, taken.id)


def delete(manager, taken, patience=30):
    """It is in use until the sandboxes that began with it have gone, which is later than their end is answered."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return manager.delete_snapshot(taken)
        except SandboxApiException as error:
            if error.status_code != 409 or time.monotonic() > deadline:
                raise


def main():
    with sandbox(image=IMAGE, last=True) as first:
        first.files.write_file('/opt/tool.py', TOOL)
        with snapshot(first) as taken:
            for name, (program, read_only) in STAGES.items():
                with sandbox(snapshot_id=taken, read_only=read_only) as box:
                    box.files.write_file('/tmp/stage.py', program)
                    done = box.commands.run('PYTHONPATH=/opt python3 /tmp/stage.py')
                    said = ''.join(line.text for line in [*done.logs.stdout, *done.logs.stderr]).strip()
                    if done.error:
                        raise RuntimeError(f'{name}: {said}')
                    print(f'{name}: done', said, sep='\n' if said else '')


if __name__ == '__main__':
    main()
