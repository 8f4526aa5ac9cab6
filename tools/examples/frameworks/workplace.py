"""What the agents of this folder share: a repository in a sandbox, the tool that works on it, a model."""
import contextlib
import datetime
import http.server
import json
import os
import pathlib
import sys
import threading

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import NetworkPolicy

AGENT = pathlib.Path(__file__).resolve().parents[1] / 'agent'
sys.path.insert(0, str(AGENT))
import stand_in  # pylint: disable=wrong-import-position

CONFIG = ConnectionConfigSync(domain=os.environ['SANDBOX_DOMAIN'],
                              api_key=os.environ.get('SANDBOX_API_KEY', ''))
REPOSITORY = '/tmp/repository'
TASK = (f'A test of the repository {REPOSITORY} fails: median_test. Mend the code, not the test, and run the '
        'tests again.')


class Workplace:
    """A sandbox that reaches nothing: what the model wants done is done there, and stays there."""

    def __enter__(self):
        self.box = SandboxSync.create(os.environ.get('SANDBOX_IMAGE', 'python:3.11'), connection_config=CONFIG,
                                      timeout=datetime.timedelta(minutes=10), entrypoint=['sleep', 'infinity'],
                                      network_policy=NetworkPolicy(defaultAction='deny', egress=[]))
        for file in (AGENT / 'repository').iterdir():
            if file.is_file():
                self.box.files.write_file(f'{REPOSITORY}/{file.name}', file.read_text(encoding='utf-8'))
        return self

    def __exit__(self, *_):
        self.box.kill()
        self.box.close()

    def run_command(self, command: str) -> str:
        """Runs a shell command in the repository.

        Args:
            command: what the shell is given.

        Returns:
            What it prints, and how it ended if it failed.
        """
        done = self.box.commands.run(command, opts=RunCommandOpts(
            working_directory=REPOSITORY, timeout=datetime.timedelta(minutes=1)))
        said = [line.text for line in [*done.logs.stdout, *done.logs.stderr]]
        return ''.join(said + ([f'\n(failed: {done.error.value})'] if done.error else []))

    def report(self, answer):
        """What the agent says, and whether it is so: that is asked of the repository."""
        print(answer.strip())
        print(self.run_command('python3 -m unittest median_test 2>&1').strip().splitlines()[-1])


@contextlib.contextmanager
def model(variable):
    """(address, key): those of the real service, whose address its client knows, if `variable` has a key;
    else of a stand-in with written answers, on loopback."""
    if os.environ.get(variable):
        yield None, os.environ[variable]
        return
    stand_in.Handler.script = json.loads((AGENT / 'script.json').read_text(encoding='utf-8'))
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), stand_in.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}', 'none'
        server.shutdown()
