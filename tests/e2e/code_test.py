"""Code contexts with real kernels: Python's, Bash's and Node's, as images/recipes/kernels.toml has them."""
import base64
import json
import os
import pty
import select
import signal
import subprocess
import threading
import time
import unittest

import atoll
from box import Box
from contexts import Contexts, error, texts
from harness import until
from isolated import Session

# In place of the image's Python: an ordinary one, but what it does as a zygote is odd.
ODD_PYTHON = """#!/usr/bin/python3
import os, socket, sys
if sys.argv[1] != '-' or '-f' in sys.argv:
    os.execv('/usr/bin/python3', ['python3', *sys.argv[1:]])
open('/tmp/asked', 'a').write('asked')
if HOW == 'names itself':
    message, descriptors, _, _ = socket.recv_fds(socket.socket(fileno=3), 8192, 4)
    os.write(descriptors[3], b'+')
    os.read(descriptors[3], 1)
"""
# Lists the ports of loopback that speak ZMTP. It leaves out ipykernel's socket for the output of a
# kernel's own children, which says nothing and asks for a secret.
SOCKET_TYPES = r"""
import re, socket
ready = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB"
for line in list(open("/proc/net/tcp"))[1:]:
    words = line.split()
    if words[3] != "0A":
        continue
    with socket.create_connection(("127.0.0.1", int(words[1].split(":")[1], 16)), 30) as peer:
        peer.sendall((b"\xff" + bytes(8) + b"\x7f\x03\0NULL").ljust(64, b"\0") + ready)
        said, found = b"", None
        while not found:
            part = peer.recv(4096)
            if not part:
                break
            said += part
            found = re.search(rb"Socket-Type\0\0\0.([A-Z]+)", said)
        if found and found[1] != b"PULL":
            print(found[1].decode())
"""
# Sends before a socket is bound, and as soon as it is, and says what was sent.
BIND = """
const zmq = require("/usr/local/lib/node_modules/tslab/node_modules/zeromq")
for (const kind of ["Publisher", "Router"]) {
  const socket = new zmq[kind](), said = []
  const say = n => socket.send(["nobody", String(n)]).then(() => said.push(n), error => said.push(error.message))
  const bound = socket.bind(`ipc:///tmp/${kind}`)
  const first = [say(0), say(1)]
  bound.then(() => Promise.all([...first, say(2), say(3)])).then(() => console.log(kind, ...said))
}
"""
PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='


class Kernels(Contexts, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('kernels'), 'kernels:latest')
        cls.box = Box(cls.daemon, 'kernels:latest', resourceLimits={'cpu': '2', 'memory': '3Gi'})

    def test_python(self):
        context, other = self.create(), self.create()
        events = self.run_in(context, 'name = "grüße 🐍"\nprint(name)\n1 + 1')
        self.assertEqual([e['type'] for e in events], ['init', 'ping', 'stdout', 'execution_count',
                                                       'result', 'execution_complete'])
        self.assertEqual((texts(events), events[3]['execution_count'], events[4]['results']),
                         ('grüße 🐍\n', 1, {'text': '2'}))
        self.assertEqual(texts(self.run_in(context, 'print(name)')), 'grüße 🐍\n')
        failed = error(self.run_in(other, 'print(name)'))
        self.assertEqual((failed['ename'], failed['evalue']),
                         ('NameError', "name 'name' is not defined"))
        self.assertTrue(any('Traceback' in line for line in failed['traceback']))
        # Nobody can be asked.
        self.assertEqual(error(self.run_in(context, 'input()'))['ename'], 'StdinNotImplementedError')

    def test_no_isolated_session_reaches_a_kernel(self):
        """Neither by its key nor by its sockets, where its kernel knows those of Unix."""
        contexts = {language: self.create(language) for language in ('python', 'bash', 'javascript')}
        for request in ({'profile': 'balanced', 'uid': 0}, {'profile': 'strict', 'uid': 0}):
            session = Session(self.box, **request)
            self.addCleanup(session.delete)
            self.assertEqual(session.out('ls -A /dev/shm; grep -rls hmac-sha256 /tmp /run /var/tmp /root; true'),
                             '', request)
            self.assertEqual(session.out(f"python3 -c '{SOCKET_TYPES}'"), '', request)
        for language, code in (('python', 'print(6 * 7)'), ('bash', 'echo 42'),
                               ('javascript', 'console.log(42)')):
            self.assertEqual(texts(self.run_in(contexts[language], code)).strip(), '42', language)

    def test_output_that_is_on_its_way_when_a_run_ends(self):
        """Large text takes the thread that sends it a second. Here any does."""
        context = self.create()
        self.run_in(context, """
import sys, threading
send, begun = sys.stdout.session.send, threading.Event()
def late(socket, kind, *given, **named):
    if kind == 'stream' and threading.current_thread() is not threading.main_thread():
        begun.set()
        threading.Event().wait(1)
    return send(socket, kind, *given, **named)
sys.stdout.session.send = late
""")
        self.assertEqual(texts(self.run_in(context, 'print("first"); begun.wait(); print("second")')), 'first\nsecond\n')

    def test_what_children_of_node_inherit(self):
        """Its children write to the kernel's own streams, and every byte arrives or is replaced."""
        for language in ('javascript', 'typescript'):
            with self.subTest(language):
                context = self.create(language)
                self.run_in(context, 'import * as child from "child_process"')
                child = lambda command: self.run_in(
                    context, f'child.execSync({json.dumps(command)}, {{stdio: "inherit"}}); console.log("done")')
                events = child('echo out; echo err >&2; printf "no end"')
                self.assertIsNone(error(events), events)
                self.assertEqual((sorted(texts(events).split('\n')), texts(events, 'stderr')),
                                 (['done', 'no end', 'out'], 'err\n'))
                said = texts(child('printf "\\200\\377caf\\303\\251\\n"'))
                self.assertIn('\ufffd\ufffdcafé\n', said)
                said = texts(child('head -c 10485760 /dev/zero | tr "\\0" x'))
                self.assertEqual(said.count('x'), 10 << 20)
                # The kernel's own output: half of a surrogate pair, bytes, 10 MiB without a line's end.
                for code, wanted in (('console.log("a", "\\ud83d", "b")', 'a \ufffd b\n'),
                                     ('process.stdout.write(Buffer.from([255, 254, 101, 0xe4])); null', '\ufffd\ufffde\ufffd'),
                                     ('process.stdout.write("é".repeat(5 << 20)); null', 'é' * (5 << 20)),
                                     ('throw new Error("\\ud83d")', None)):
                    events = self.run_in(context, code)
                    self.assertEqual(events[-1]['type'], 'execution_complete', code)
                    self.assertEqual(error(events) is not None, wanted is None, code)
                    self.assertTrue(texts(events) == (wanted or ''), code)
                # Output that is written while nothing runs belongs to no run.
                self.run_in(context, 'child.spawn("sh", ["-c", "sleep 1; echo late; : >/tmp/late"], {stdio: "inherit"})')
                until(lambda: self.box.get('/files/info', path='/tmp/late').status == 200, what='it has written')
                self.assertEqual(texts(self.run_in(context, 'console.log(1)')), '1\n')
                self.box.out('rm /tmp/late')
                # The last words of a kernel that dies.
                events = self.run_in(context, 'process.abort()')
                self.assertEqual(error(events)['ename'], 'KernelDied')

    def test_what_node_says_during_a_bind_is_sent(self):
        """A busy machine has a kernel of Node asked before its sockets are bound; then its first answer was lost."""
        said = self.box.out(f"cat >/tmp/bind.js <<'END'\n{BIND}END\n"
                            'node --require /usr/local/share/jupyter/kernels/send_at_once.js /tmp/bind.js')
        self.assertEqual(sorted(said.split('\n')), ['Publisher 0 1 2 3', 'Router 0 1 2 3'])

    def zygotes(self, box=None):
        return (box or self.box).out('grep -lx kernel-zygote /proc/[0-9]*/comm; true').split()

    def end_spare(self):
        """The next kernel is forked: another spare takes a rest."""
        self.box.out('for file in $(grep -lx kernel-spare /proc/[0-9]*/comm); do\n'
                     'kill -9 $(basename $(dirname $file)); done\n'
                     'while grep -qx kernel-spare /proc/[0-9]*/comm; do sleep 0.01; done')

    def value(self, context, code, box=None):
        events = self.run_in(context, f'print({code})', box)
        self.assertIsNone(error(events))
        return texts(events).strip()

    def test_kernels_are_forked(self):
        """Of one process, each in a leaf, a session and of a state of its own; process 1's child."""
        def has_libraries():
            context = self.create()
            has = self.value(context, '"pandas" in __import__("sys").modules')
            self.box.call('DELETE', f'/code/contexts/{context}')
            return has == 'True'
        # Not while the first kernel starts; then once for all.
        until(has_libraries, 20 * atoll.SLOWNESS, 'what the zygote has imported is there')
        self.assertEqual(len(self.zygotes()), 1)
        first, second = self.create(), self.create()
        self.run_in(first, 'import numpy, random, os, uuid, ssl, secrets')
        self.run_in(second, 'import numpy, random, os, uuid, ssl, secrets')
        for code in ('random.random()', 'numpy.random.random()', 'numpy.random.default_rng().random()',
                     'uuid.uuid1()', 'uuid.uuid4()', 'ssl.RAND_bytes(8)', 'secrets.token_hex()',
                     'os.getsid(0)', 'open("/proc/self/cgroup").read()'):
            with self.subTest(code=code):
                self.assertNotEqual(self.value(first, code), self.value(second, code))
        for code, expected in (('os.getppid()', '1'), ('os.getpgid(0) == os.getpid()', 'True'),
                               ('len(os.listdir("/proc/self/fd")) < 64', 'True'),
                               ('os.environ.get("OPENBLAS_NUM_THREADS")', 'None'),
                               ('len(os.sched_getaffinity(0))', '2'),
                               ('open("/proc/self/comm").read()', 'python3')):
            with self.subTest(code=code):
                self.assertEqual(self.value(first, code), expected)
        self.run_in(first, 'import sys; sys.modules["numpy"].mine = 1')
        self.assertEqual(self.value(second, 'hasattr(numpy, "mine")'), 'False')

    def test_what_pip_has_brought_is_compiled(self):
        """When the image is made; and what is edited here counts nevertheless."""
        seen = self.box.out('python3 -Bvc "import pandas, matplotlib.pyplot" 2>&1')
        packages = '/usr/local/lib/python3.11/dist-packages/'
        self.assertGreater(seen.count(f' matches {packages}pandas/'), 100)
        self.assertNotRegex(seen, f"code object from '{packages}[^']*[.]py'")
        self.box.out(f'echo edited = 1 >>{packages}cycler/__init__.py')
        self.assertEqual(self.box.out('python3 -c "import cycler; print(cycler.edited)"'), '1')

    def test_what_the_zygote_leaves_out_is_there(self):
        """For whoever imports it: nothing stands in its place."""
        self.end_spare()
        context = self.create()
        self.run_in(context, 'import IPython, sys')
        names = '("prompt_toolkit", "debugpy", "jedi", "IPython.terminal.embed")'
        self.assertEqual(self.value(context, f'[one for one in {names} if one in sys.modules]'), '[]')
        for code, expected in (('IPython.embed.__module__', 'IPython.terminal.embed'),
                               ('hasattr(IPython, "absent")', 'False'),
                               ('__import__("debugpy").__name__', 'debugpy'),
                               ('__import__("jedi").Script("x = 1").__class__.__name__', 'Script'),
                               ('__import__("gc").isenabled()', 'True')):
            with self.subTest(code=code):
                self.assertEqual(self.value(context, code), expected)

    def test_its_exit_is_told(self):
        context = self.create()
        died = error(self.run_in(context, 'import os; os._exit(7)'))
        self.assertEqual((died['ename'], died['evalue']), ('KernelDied', 'exit status 7'))

    def test_the_zygote_can_be_ended_and_not_entered(self):
        """By a context, which runs as the same user."""
        self.end_spare()
        context = self.create()
        path = self.zygotes()[0].removesuffix('/comm')
        for file, mode in (('mem', 'r+b'), ('environ', 'rb'), ('maps', 'rb')):
            denied = error(self.run_in(context, f'open("{path}/{file}", "{mode}").read(1)'))
            self.assertEqual(denied['ename'], 'PermissionError')
        self.run_in(context, f'import os; os.kill({path.rpartition("/")[2]}, 9)')
        until(lambda: self.zygotes() == [], what='it is gone')
        self.assertEqual(self.value(context, '1 + 1'), '2')
        self.assertEqual(self.value(self.create(), '2 + 2'), '4')
        # That context may have been the spare, and the next one has a rest first.
        until(lambda: len(self.zygotes()) == 1, what='another one is there')

    def test_a_zygote_that_hangs_costs_time(self):
        self.end_spare()
        self.create()
        pid = self.zygotes()[0].split('/')[2]
        self.box.out(f'kill -STOP {pid}')
        context = self.box.call('POST', '/code/context', {'language': 'python'}).json['id']
        self.assertEqual(self.value(context, '1 + 1'), '2')
        self.assertEqual(self.zygotes(), [])

    def test_odd_zygotes_are_passed_by(self):
        """One that ends at once, and one that names a process that is not to be taken."""
        for how in ('ends', 'names itself'):
            with self.subTest(how=how):
                box = Box(self.daemon, 'kernels:latest', resourceLimits={'cpu': '2', 'memory': '2Gi'})
                odd = ODD_PYTHON.replace('HOW', repr(how))
                box.out(f"cat >/tmp/odd <<'EOF'\n{odd}EOF\nchmod +x /tmp/odd\n"
                        'mkdir -p ~/.local/share/jupyter/kernels/python\n'
                        "cat >~/.local/share/jupyter/kernels/python/kernel.json <<'EOF'\n"
                        '{"language": "python", "argv": ["/tmp/odd", "-m", "ipykernel_launcher", "-f", '
                        '"{connection_file}"]}\nEOF')
                self.assertEqual(self.value(self.create(box=box), '1 + 1', box), '2')
                self.assertEqual(self.value(self.create(box=box), '2 + 2', box), '4')
                # A kernel that starts by itself reads its children as one from the zygote does.
                text = '\u4e2d' * 3000
                code = f'import subprocess; subprocess.run(["echo", "{text}"]); print(__import__("json").loads(\'"\\\\ud83d"\'))'
                # In what order is not said: a child's output takes a way of its own.
                said = texts(self.run_in(self.create(box=box), code, box))
                self.assertEqual((said.count(text[0]), said.count('\ufffd'), len(said)), (3000, 1, 3003))
                # It had its chance, and only one.
                self.assertEqual(box.out('cat /tmp/asked'), 'asked')
                self.daemon.delete(box.id)

    def test_another_environment_has_another_zygote(self):
        """The file of EXECD_ENVS is read for each kernel."""
        box = Box(self.daemon, 'kernels:latest', env={'EXECD_ENVS': '/tmp/envs'},
                  resourceLimits={'cpu': '2', 'memory': '2Gi'})
        before = self.create(box=box)
        box.out('echo COLOUR=blue >/tmp/envs')
        after = self.create(box=box)
        shown = '__import__("os").environ.get("COLOUR")'
        self.assertEqual(self.value(before, shown, box), 'None')
        self.assertEqual(self.value(after, shown, box), 'blue')
        self.assertEqual(len(self.zygotes(box)), 1)
        self.daemon.delete(box.id)

    def test_rich_output(self):
        events = self.run_in(self.create(), f'''
from IPython.display import display
display({{'text/plain': 'dot', 'image/png': '{PNG}', 'application/json': {{'a': [1, 2.5, None]}}}},
        raw=True)''')
        shown = next(e['results'] for e in events if e['type'] == 'result')
        self.assertEqual(shown, {'text': 'dot', 'image/png': PNG,
                                 'application/json': {'a': [1, 2.5, None]}})
        self.assertTrue(base64.b64decode(shown['image/png']).startswith(b'\x89PNG'))

    def test_other_languages(self):
        for language, first, second, wrong in (
                ('Bash', 'x=8; echo $((x+9))', 'echo $x', 'false'),
                ('javascript', 'let x = 8; console.log(x + 9)', 'console.log(x)', 'nope()'),
                ('typescript', 'let x: number = 8; console.log(x + 9)', 'console.log(x)',
                 'const y: number = "text"')):
            with self.subTest(language=language):
                context = self.create(language)
                self.assertEqual(texts(self.run_in(context, first)), '17\n')
                self.assertEqual(texts(self.run_in(context, second)), '8\n')
                events = self.run_in(context, wrong)
                self.assertIsNotNone(error(events))
                self.assertEqual(events[-1]['type'], 'execution_complete')

    def test_interrupt(self):
        context = self.create()
        # Not "ready", told by print: in its flush CPython may make a RuntimeError of an interrupt.
        runs = lambda: self.box.out('rm /tmp/runs 2>/dev/null && echo runs; true')
        for code in ('while True: pass', 'from time import sleep; sleep(600)'):
            begin = 'open("/tmp/runs", "w").close()\n'
            failed = error(self.interrupt(context, begin + code, runs=runs, seconds=9))
            self.assertEqual(failed['ename'], 'KeyboardInterrupt', failed)
            self.assertEqual(texts(self.run_in(context, 'print("next")')), 'next\n')
        shell = self.create('bash')
        # Bash waits for a program that was not in the terminal's foreground yet when Ctrl-C came.
        sleeps = lambda: self.box.out("awk '$2 == \"(sleep)\" && $5 == $8' /proc/[0-9]*/stat 2>/dev/null; true")
        self.interrupt(shell, 'echo ready; sleep 600', runs=sleeps, seconds=9)
        self.assertEqual(texts(self.run_in(shell, 'echo next')), 'next\n')

    def test_ten_mebibytes(self):
        events = self.run_in(self.create(), 'print(("x" * 79 + "\\n") * 131072, end="")')
        self.assertEqual(texts(events), ('x' * 79 + '\n') * 131072)

    def test_what_a_child_writes_arrives(self):
        """Characters across the reads of a pipe, bytes that are no text, 10 MiB without a line's end."""
        for name, program, wanted in (
                ('chinese', 'w(("中文" * 3500).encode())', '中文' * 3500),
                ('binary', 'w(bytes(range(128, 256)) * 300 + b"end\\xe4")', '\ufffd' * 38400 + 'end\ufffd'),
                ('long', 'w(b"x" * 10485760); w(b"end")', 'x' * 10485760 + 'end')):
            command = f"python3 -c 'import sys; w = sys.stdout.buffer.write; {program}'"
            for language, code in (('python', f'import subprocess; subprocess.run({command!r}, shell=True); None'),
                                   ('bash', command)):
                with self.subTest(name=name, language=language):
                    events = self.run_in(self.create(language), code)
                    self.assertIsNone(error(events))
                    self.assertTrue(texts(events) == wanted, len(texts(events)))

    def test_what_is_no_text_ends_no_kernel(self):
        half = 'import json, os; half = json.loads(\'"\\\\ud83d"\')\n'
        for code, wanted in (('print("a", half, "b")', 'a \ufffd b\n'),
                             ('print(os.fsdecode(b"\\xff"))', '\ufffd\n'),
                             ('half', None), ('raise ValueError(half)', None), ('{half: 1}', None),
                             ('get_ipython().system("printf \\\\377")', None),
                             ('__import__("sys").stderr.write(half)', '')):
            with self.subTest(code=code):
                context = self.create()
                events = self.run_in(context, half + code)
                self.assertEqual(events[-1]['type'], 'execution_complete')
                self.assertEqual(error(events) is not None, code.startswith('raise'))
                if wanted is not None:
                    self.assertEqual(texts(events), wanted)
                self.assertEqual(self.value(context, '1 + 1'), '2')

    def test_no_line_of_a_script_is_missing(self):
        events = self.run_in(self.create('javascript'), 'for (let i = 0; i < 5000; i++) console.log(i)')
        self.assertEqual(texts(events), ''.join(f'{i}\n' for i in range(5000)))

    def test_a_thousand_runs_without_growth(self):
        context, connection = self.create(), self.daemon.connection()

        def run():
            self.box.call('POST', '/code', {'code': 'print(1)', 'context': {'id': context}},
                          connection=connection)
        held = lambda: int(self.box.out("awk '/VmRSS/ {print $2}' /proc/1/status"))
        descriptors = lambda: int(self.box.out('grep -c . /proc/net/tcp'))
        for _ in range(100):
            run()
        before, open_before = held(), descriptors()
        for _ in range(1000):
            run()
        self.assertLess(held() - before, 256)  # KiB
        # A spare interpreter that has begun meanwhile has a dozen.
        self.assertLess(descriptors() - open_before, 100)
        connection.close()

    def test_parallel_contexts(self):
        made, out = [], {}
        threads = [threading.Thread(target=lambda: made.append(self.create())) for _ in range(20)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(len(made), 20)

        def one(context):
            out[context] = texts(self.run_in(context, f'import time\ntime.sleep(1)\nprint("{context}")'))
        began = time.monotonic()
        threads = [threading.Thread(target=one, args=(context,)) for context in made]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertLess(time.monotonic() - began, 15 * atoll.SLOWNESS)
        self.assertEqual(out, {context: context + '\n' for context in made})

    def test_memory_limit(self):
        box = Box(self.daemon, 'kernels:latest', resourceLimits={'cpu': '1', 'memory': '256Mi'})
        context = self.create(box=box)
        self.run_in(context, 'kept = 1', box)
        failed = error(self.run_in(context, 'b = bytearray(1 << 30)\nb[::4096] = b[::4096]\n'
                                            'l = [bytes(range(256)) * 4096 for _ in range(400)]', box))
        self.assertEqual(failed['ename'], 'KernelDied')
        self.assertIn('out of memory', failed['evalue'])
        self.assertEqual(texts(self.run_in(context, 'print("new", "kept" in globals())', box)),
                         'new False\n')
        self.assertEqual(box.out('echo alive'), 'alive')
        self.daemon.delete(box.id)

    def test_deleted_contexts_leave_nothing(self):
        context = self.create()
        self.run_in(context, 'import subprocess\n'
                             'subprocess.Popen(["sleep", "98765"], start_new_session=True)')
        self.assertEqual(self.box.call('DELETE', f'/code/contexts/{context}').status, 200)
        until(lambda: self.box.out("grep -lsa '[9]8765' /proc/[0-9]*/cmdline; true") == '',
              what='what the context has started is gone')

    def client(self, *words, verb=('code', 'kernels:latest'), **options):
        return subprocess.run([atoll.BUILD / 'atoll', *verb, *words],
                              env=self.daemon.client_env(), capture_output=True, text=True,
                              timeout=60 * atoll.SLOWNESS, check=False, **options)

    def test_command_line(self):
        """What is printed, what fails, what is piped in; and nothing stays."""
        known = lambda: {box['id'] for box in self.daemon.request('GET', '/v1/sandboxes')['items']}
        before = known()
        done = self.client('-c', 'print(6 * 7)\n"a" + "b"', stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "42\n'ab'\n", ''))
        done = self.client('-c', 'print("before")\n1 / 0', stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (1, 'before\n'))
        self.assertIn('ZeroDivisionError: division by zero', done.stderr)
        self.assertNotIn('\x1b', done.stderr)
        self.assertEqual(self.client('-l', 'bash', input='x=8\necho $((x + 9))\n').stdout, '17\n')
        done = self.client('-l', 'cobol', '-c', 'x', stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn('no Jupyter kernel for it', done.stderr)
        until(lambda: known() <= before, 20 * atoll.SLOWNESS, 'the sandboxes are gone')

    def test_run_with_code(self):
        for words, code, out, err in (
                (['--code', 'python', '-c', 'print(6 * 7)', '-m', '600m', 'kernels:latest'], 0, '42\n', ''),
                (['--code', 'bash', '-c', 'false', 'kernels:latest'], 1, '', 'Error: 1'),
                (['--code', 'python', '-c', '1 / 0', 'kernels:latest'], 1, '', 'ZeroDivisionError'),
                (['--code', 'python', '-c', '1'], 125, '', "'code-interpreter:latest'"),
                (['--code', 'python', 'kernels:latest', '-c', '6 * 7'], 0, '42\n', ''),
                (['--code', 'python', 'kernels:latest', 'ls'], 125, '', 'leave out COMMAND'),
                (['-c', '1', 'kernels:latest'], 125, '', '-c goes with --code')):
            done = self.client(*words, verb=['run'], stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, done.stdout), (code, out), (words, done.stderr))
            self.assertIn(err, done.stderr)

    def test_plots_become_files(self):
        code = 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()'
        for number in (1, 2):  # nothing is written over
            done = self.client('--plots', self.daemon.top, '-c', code, stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, done.stderr), (0, f'atoll: {self.daemon.top}/plot-{number}.png\n'))
            plot = (self.daemon.top / f'plot-{number}.png').read_bytes()
            self.assertTrue(plot.startswith(b'\x89PNG') and plot.endswith(b'IEND\xaeB`\x82'))

    def test_at_a_terminal(self):
        """State is kept, blocks end with an empty line, Ctrl-C ends what runs and nothing else."""
        master, slave = pty.openpty()
        client = subprocess.Popen([atoll.BUILD / 'atoll', 'code', 'kernels:latest'], stdin=slave,
                                  stdout=slave, stderr=slave, env=self.daemon.client_env())
        os.close(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(client.kill)
        seen = b''

        def type_and_see(typed, wanted):
            nonlocal seen
            os.write(master, typed)
            seen, deadline = b'', time.monotonic() + 30 * atoll.SLOWNESS
            while wanted not in seen:
                self.assertTrue(select.select([master], [], [], deadline - time.monotonic())[0], seen)
                seen += os.read(master, 4096)
        type_and_see(b'kept = 20\nkept + 22\n', b'42\r\n')
        type_and_see(b'for i in range(2):\n    print("row", i + kept)\n\n', b'row 20\r\nrow 21\r\n')
        type_and_see(b'1 / 0\n', b'ZeroDivisionError')
        type_and_see(b'print("r" "eady"); __import__("time").sleep(600)\n', b'ready\r\n')
        client.send_signal(signal.SIGINT)
        type_and_see(b'kept + 23\n', b'43\r\n')
        os.write(master, b'\x04')
        self.assertEqual(client.wait(20 * atoll.SLOWNESS), 0)


if __name__ == '__main__':
    unittest.main()
