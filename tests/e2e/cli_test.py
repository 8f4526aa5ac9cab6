"""The command line client against a real daemon, as a person uses it."""
import json
import os
import signal
import subprocess
import unittest

import atoll
from atoll import BUILD, SLOWNESS, until
from box import shell_image


class Cli(unittest.TestCase):
    """One daemon for all cases, found through its run directory."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.environment = {'PATH': os.environ['PATH'], 'ATOLL_RUN_DIR': str(cls.daemon.run_dir)}
        cls.cli(cls, 'image', 'import', atoll.image_archive('busybox'), '--name', 'box:1')

    def cli(self, *arguments, expect=0):
        """Standard output of a finished call; its exit code must be the expected one."""
        done = subprocess.run([BUILD / 'atoll', *arguments], env=self.environment, text=True,
                              capture_output=True, timeout=60 * SLOWNESS, check=False)
        if done.returncode != expect:
            raise AssertionError(f'{arguments}: {done.returncode}\n{done.stdout}{done.stderr}')
        self.stderr = done.stderr
        return done.stdout

    def sandboxes(self):
        return self.cli('ls', '-q').split()

    def test_run_streams_and_returns_the_exit_code(self):
        words = ["it's", '', '[1,2]', '$HOME', 'a\nb', '--']
        out = self.cli('run', '-e', 'A=x y', 'box:1', '--', 'sh', '-c',
                       'echo "$A"; echo err >&2; printf "<%s>" "$@"; exit 7', 'sh', *words,
                       expect=7)
        self.assertEqual(out, 'x y\n' + ''.join(f'<{word}>' for word in words))
        self.assertEqual(self.stderr, 'err\n')
        self.assertEqual(self.sandboxes(), [])

    def test_an_interrupted_run_leaves_nothing(self):
        run = subprocess.Popen([BUILD / 'atoll', 'run', 'box:1', '--', 'sh', '-c',
                                'trap "" INT TERM; echo started; sleep 600'],
                               env=self.environment, stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.stdout.readline(), 'started\n')
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(20 * SLOWNESS), 128 + signal.SIGINT)
        run.stdout.close()
        self.assertEqual(self.sandboxes(), [])

    def test_a_run_whose_reader_leaves_ends(self):
        run = subprocess.Popen([BUILD / 'atoll', 'run', 'box:1', '--', 'yes'],
                               env=self.environment, stdout=subprocess.PIPE, text=True)
        self.assertEqual(run.stdout.readline(), 'y\n')
        run.stdout.close()
        self.assertEqual(run.wait(20 * SLOWNESS), 128 + signal.SIGPIPE)
        self.assertEqual(self.sandboxes(), [])

    def test_a_kept_sandbox_takes_more_commands(self):
        self.cli('run', '--keep', '--name', 'kept', '-m', '64Mi', 'box:1', '--', 'touch', '/tmp/x')
        (box,) = self.sandboxes()
        self.assertEqual(self.cli('exec', '-w', '/tmp', 'kept', '--', 'ls'), 'x\n')
        self.cli('exec', box[:8], '--', 'sh', '-c', 'exit 3', expect=3)
        listed = json.loads(self.cli('ps', '--json'))['items']
        self.assertEqual([item['metadata'] for item in listed], [{'name': 'kept'}])

        sleeper = subprocess.Popen([BUILD / 'atoll', 'exec', 'kept', '--', 'sh', '-c',
                                    'echo $$; exec sleep 600'],
                                   env=self.environment, stdout=subprocess.PIPE, text=True)
        pid = sleeper.stdout.readline().strip()
        sleeper.send_signal(signal.SIGTERM)
        self.assertEqual(sleeper.wait(20 * SLOWNESS), 128 + signal.SIGTERM)
        sleeper.stdout.close()
        self.cli('exec', 'kept', '--', 'test', '-e', f'/proc/{pid}', expect=1)

        self.assertEqual(self.cli('rm', 'kept'), box + '\n')
        self.cli('exec', box, '--', 'true', expect=125)

    def test_errors_say_what_to_do(self):
        self.cli('run', 'absent', '--', 'true', expect=125)
        self.assertIn('atoll image import FILE --name absent', self.stderr)
        self.cli('run', expect=2)
        self.cli('image', 'import', '/etc/passwd', '--name', 'bad', expect=1)
        self.cli('--server', 'http://127.0.0.1:1', 'ls', expect=1)
        self.assertIn('is atolld running?', self.stderr)

    def test_an_image_that_cannot_start_is_told_why(self):
        """Whoever loses execd asks how the sandbox ended, which comes by another way."""
        wrong = (({'user': 'nosuch'}, "user 'nosuch': no entry in /etc/passwd"),
                 ({'cwd': '/etc/passwd'}, 'working directory'))
        for options, told in wrong:
            image = shell_image(self.daemon, 'wrong:1', **options)
            for words in ((), ('-u', 'root'), ('-i',)) * 3:
                self.cli('run', *words, image, '--', 'true', expect=125)
                self.assertIn(told, self.stderr)
                self.assertNotIn('reset', self.stderr)
        box = self.cli('run', '-d', 'box:1', 'sleep', '1000').strip()
        command = subprocess.Popen([BUILD / 'atoll', 'exec', box, 'sh', '-c', 'echo on; sleep 1000'],
                                   env=self.environment, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.assertEqual(command.stdout.readline(), 'on\n')
        self.cli('kill', box)
        # execd may tell the command's end before its own.
        self.assertRegex(command.communicate(timeout=60 * SLOWNESS)[1], 'exit code 137|killed by SIGKILL')
        self.cli('rm', box)

    def test_images_are_listed_and_removed(self):
        self.cli('image', 'import', atoll.image_archive('busybox'), '--name', 'gone:2')
        names = [image['name'] for image in json.loads(self.cli('image', 'ls', '--json'))['items']]
        self.assertIn('gone:2', names)
        self.cli('image', 'rm', 'gone:2')
        self.assertNotIn('gone:2', self.cli('image', 'ls'))

    def test_the_doctor_finds_this_host_fit(self):
        report = json.loads(self.cli('doctor', '--json', '--data-dir', self.daemon.data_dir))
        self.assertTrue(report['ready'])
        grades = {check['name']: check['status'] for check in report['checks']}
        self.assertEqual(grades['overlay'], 'ok')
        self.assertEqual(grades['user namespaces'], 'ok')


class Shutdown(unittest.TestCase):
    """Ends everything."""

    def test_shutdown_all_ends_sandboxes_daemon_and_spawner(self):
        with atoll.Daemon() as daemon:
            image = daemon.import_busybox()
            daemon.create(image)
            spawner = daemon.spawner_pid()
            subprocess.run([BUILD / 'atoll', '--run-dir', daemon.run_dir, 'shutdown', '--all'],
                           check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(daemon.process.wait(20 * SLOWNESS), 0)
            until(lambda: not os.path.exists(f'/proc/{spawner}'), 30 * SLOWNESS,
                  'the spawner has ended')


if __name__ == '__main__':
    unittest.main()
