"""What people expect of an image by its name: a Python with pip and venv, servers that start as Debian packages
them, and a code interpreter that answers where its clients wait."""
import pathlib
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box

HERE = pathlib.Path(__file__).parent
UNTIL = 30 * SLOWNESS

# A wheel without a build.
WHEEL = r'''
import zipfile
with zipfile.ZipFile('/tmp/tiny-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('tiny.py', 'def main():\n    print("tiny runs")\n')
    wheel.writestr('tiny-1.dist-info/METADATA', 'Metadata-Version: 2.1\nName: tiny\nVersion: 1\n')
    wheel.writestr('tiny-1.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('tiny-1.dist-info/entry_points.txt', '[console_scripts]\ntiny = tiny:main\n')
    wheel.writestr('tiny-1.dist-info/RECORD', '')
'''


class Packaged(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive(HERE / 'packaged.toml'), 'packaged:1')

    def box(self, entrypoint=('sleep', '99999')):
        box = Box(self.daemon, 'packaged:1', entrypoint=list(entrypoint),
                  resourceLimits={'cpu': '2', 'memory': '1Gi', 'pids': '1000'})
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def test_python_is_whole(self):
        box = self.box()
        self.assertEqual(box.out('python -c "import sys; print(sys.version_info[:2])"'), '(3, 11)')
        self.assertIn('PID', box.out('ps -ef'))
        box.out(f"cat >/tmp/wheel.py <<'E'\n{WHEEL}\nE\npython /tmp/wheel.py")
        install = 'install --quiet --no-index /tmp/tiny-1-py3-none-any.whl 2>&1'
        self.assertEqual(box.out(f'pip {install}; tiny'), 'tiny runs')
        self.assertEqual(box.out(f'python -m venv /srv/v && . /srv/v/bin/activate && pip {install}; '
                                 'command -v tiny; tiny'), '/srv/v/bin/tiny\ntiny runs')

    def test_packaged_servers_start(self):
        box = self.box()
        self.assertEqual(box.out('stat -c "%n %a %U:%G" /run/redis /run/sshd /run/dbus'),
                         '/run/redis 2755 redis:redis\n/run/sshd 755 root:root\n/run/dbus 755 root:root')
        box.out('/usr/sbin/sshd -t && nginx -t 2>&1')
        box.background('exec runuser -u redis -- redis-server /etc/redis/redis.conf --daemonize no '
                       '--unixsocket /run/redis/s --port 0')
        box.background('exec dbus-daemon --system --nofork --nopidfile')
        box.background("exec nginx -g 'daemon off;'")
        box.background('exec /usr/sbin/sshd -D -p 2222')
        for command, answer in (
                ('redis-cli -s /run/redis/s ping', 'PONG'),
                ('dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId',
                 'method return'),
                ('curl -s 127.0.0.1', 'nginx'), ('ssh-keyscan -p 2222 127.0.0.1', 'ssh-ed25519')):
            with self.subTest(command):
                until(lambda: answer in box.out(f'{command} 2>&1; true'), UNTIL, f'{command}: {answer}')

    def test_the_code_interpreters_port_answers(self):
        entrypoint = '/opt/code-interpreter/code-interpreter.sh'
        box = self.box([entrypoint])
        url = 'http://127.0.0.1:44771'
        until(lambda: 'version' in box.out(f'curl -s {url}/api; true'), UNTIL, 'it answers')
        self.assertEqual(box.out(f'curl -s -o /dev/null -w "%{{http_code}}" {url}/api/sessions'), '404')
        # Who connects and says nothing keeps nobody waiting for good.
        self.assertEqual(box.out("bash -c 'exec 3<>/dev/tcp/127.0.0.1/44771; "
                                 f"curl -s -o /dev/null -w \"%{{http_code}}\" {url}/api'"), '200')
        # Beside a program of the client's, too.
        box = self.box([entrypoint, 'sleep', '99999'])
        until(lambda: 'version' in box.out(f'curl -s {url}/api; true'), UNTIL, 'it answers')


if __name__ == '__main__':
    unittest.main()
