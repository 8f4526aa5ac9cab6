"""Programs that know nothing of Atoll, as docs/integrations.md says that they run: docker's users, and the SDK."""
import os
import pathlib
import subprocess
import tempfile
import textwrap
import unittest

import atoll
from atoll import BUILD, SLOWNESS

DOCKER_USERS = BUILD / 'conformance/docker-users'  # tests/conformance/prepare docker-users
SDK = BUILD / 'conformance/python'  # … python
IMAGE = 'kernels:latest'  # it has Python and bash


class Integrations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory(dir='/var/tmp')
        cls.addClassCleanup(work.cleanup)
        cls.work = pathlib.Path(work.name)
        os.chmod(cls.work, 0o755)
        cls.daemon = atoll.Daemon(storage_allowed_host_paths=[str(DOCKER_USERS.resolve())]).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('kernels'), IMAGE)
        for name in ('atoll', 'docker'):
            (cls.work / name).symlink_to(BUILD / 'atoll')

    def python(self, kit, text, **environment):
        done = subprocess.run(
            [kit / 'bin/python', '-c', textwrap.dedent(text)], text=True, capture_output=True, check=False,
            timeout=240 * SLOWNESS, env={**self.daemon.example_env(IMAGE), 'ATOLL_RUN_DIR': str(self.daemon.run_dir),
                                         'PATH': f"{self.work}:{os.environ['PATH']}", 'HOME': str(self.work),
                                         **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def no_sandbox_is_left(self):
        atoll.until(lambda: not self.daemon.request('GET', '/v1/sandboxes')['items'], 60 * SLOWNESS,
                    'nothing is left')

    def test_mini_swe_agent(self):
        said = self.python(DOCKER_USERS, f'''
            from minisweagent.environments.docker import DockerEnvironment
            one = DockerEnvironment(image='{IMAGE}', cwd='/tmp', env={{'A': 'b'}})
            print(one.execute({{'command': 'echo $A; pwd; exit 3'}}))
            print(one.execute({{'command': 'echo kept >file'}})['returncode'])
            print(one.execute({{'command': 'cat file'}})['output'])
            one.cleanup()
            ''', MSWEA_DOCKER_EXECUTABLE='atoll', MSWEA_SILENT_STARTUP='1')
        self.assertIn("'output': 'b\\n/tmp\\n', 'returncode': 3", said)
        self.assertTrue(said.endswith('0\nkept\n\n'), said)
        # Its `stop` of what it has started with --rm is all that it does.
        self.no_sandbox_is_left()

    def test_swe_rex(self):
        """Its server, which images for it have, comes by a mount here."""
        packages = next((DOCKER_USERS.resolve() / 'lib').glob('python3*/site-packages'))
        said = self.python(DOCKER_USERS, f'''
            import asyncio
            from swerex.deployment.docker import DockerDeployment
            from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest, WriteFileRequest
            async def main():
                one = DockerDeployment(image='{IMAGE}', pull='missing', startup_timeout=120, docker_args=[
                    '-v', '{packages}:/opt/rex:ro', '-e', 'PYTHONPATH=/opt/rex'])
                one._get_swerex_start_cmd = lambda token: [
                    'python3', '-m', 'swerex.server', '--auth-token', token]
                await one.start()
                print((await one.runtime.execute(Command(command=['echo', 'executed']))).stdout)
                await one.runtime.create_session(CreateBashSessionRequest())
                await one.runtime.write_file(WriteFileRequest(path='/tmp/file', content='written'))
                print((await one.runtime.run_in_session(BashAction(command='cd /tmp && cat file && pwd'))).output)
                await one.stop()
            asyncio.run(main())
            ''')
        self.assertIn('executed\n', said)
        self.assertRegex(said, r'written/tmp|written\s+/tmp')
        self.no_sandbox_is_left()

    def test_a_shared_transport_is_faster(self):
        """Each client of its own makes TLS contexts and connections; a shared transport has them."""
        said = self.python(SDK, '''
            import os, statistics, time, httpx
            from opensandbox.config import ConnectionConfigSync
            from opensandbox import SandboxSync
            words = dict(domain=os.environ['SANDBOX_DOMAIN'], api_key=os.environ['SANDBOX_API_KEY'],
                         use_server_proxy=True)
            def seconds(config):
                begin = time.process_time()
                box = SandboxSync.create(os.environ['SANDBOX_IMAGE'], connection_config=config())
                assert box.commands.run('echo 42').logs.stdout[0].text == '42\\n'
                box.kill(); box.close()
                return time.process_time() - begin
            shared = ConnectionConfigSync(**words, transport=httpx.HTTPTransport())
            for config in (lambda: ConnectionConfigSync(**words), lambda: shared):
                seconds(config)
                print(statistics.median(seconds(config) for _ in range(9)) * 1000)
            ''')
        alone, shared = (float(line) for line in said.split())
        print(f'# a sandbox, a command, a kill: {alone:.0f} ms of processor time with a client of its own, '
              f'{shared:.0f} ms with a shared transport', flush=True)
        self.assertLess(1.15 * shared, alone)


if __name__ == '__main__':
    unittest.main()
