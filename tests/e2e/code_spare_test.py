"""The spare kernel of code contexts: who claims it cannot tell, and nobody pays for it."""
import unittest

import atoll
from box import Box
from harness import until

# What a kernel can know of itself, and what of it differs from that of any other.
SAME = ['os.getcwd()', '[str(one) for one in _dh]', 'get_ipython().starting_dir', 'sys.path', 'sorted(globals())',
        'In, Out', 'get_ipython().execution_count', 'dict(os.environ)', 'os.getppid()', 'os.getpriority(0, 0)',
        'len(os.sched_getaffinity(0))', 'os.getsid(0) == os.getpgid(0) == os.getpid()', 'threading.active_count()',
        'sorted(os.listdir("/proc/self/fd"))', '[open("/proc/self/" + f).read() for f in ("comm", "cmdline")]',
        'open("/proc/self/oom_score_adj").read()', 'signal.getsignal(signal.SIGTERM)']
OTHER = ['random.random()', 'numpy.random.random()', 'numpy.random.default_rng().random()', 'uuid.uuid4()',
         'ssl.RAND_bytes(8)', 'secrets.token_hex()', 'open("/proc/self/cgroup").read()',
         'get_ipython().history_manager.session_number']
# The same of IPython's shell, which the zygote has made: also in a kernel that starts by itself.
SHELL = ['type(shell), type(shell.parent), shell.kernel is shell.parent', 'shell is shell.kernel.shell',
         'type(sys.modules["__main__"]), sys.modules["__main__"] is shell.user_module',
         '[type(one) for one in shell.configurables if one is not shell.kernel.parent]', 'sorted(shell.__dict__)', 'sorted(shell.trait_names())',
         '{name: sorted(those) for name, those in shell.magics_manager.lsmagic().items()}', 'type(shell.compile)',
         'shell.history_manager.save_thread.is_alive(), shell.history_manager.hist_file',
         '_ih is shell.history_manager.input_hist_parsed, _oh is shell.history_manager.output_hist',
         '_dh is shell.history_manager.dir_hist', 'list(shell.history_manager.get_range(0, 1, 3))',
         '{event: len(those) for event, those in shell.events.callbacks.items()}', 'threading.active_count()',
         '{name: type(one) for name, one in shell._orig_sys_module_state.items()}', 'type(sys.displayhook)',
         'shell.displayhook.session is shell.kernel.session', 'shell.display_pub.session is shell.kernel.session',
         'len(os.listdir("/proc/self/task"))', 'sorted(globals())', 'In, Out', 'os.getcwd(), _dh, shell.starting_dir']
PLAIN = """mkdir -p ~/.local/share/jupyter/kernels/plain
cat >~/.local/share/jupyter/kernels/plain/kernel.json <<'END'
{"language": "plain", "argv": ["python3", "-m", "ipykernel_launcher", "--quiet", "-f", "{connection_file}"]}
END"""
MODULES = 'import numpy, os, random, secrets, signal, ssl, sys, threading, uuid'
# More than there is, slowly enough that what is killed first makes room; by two, since one that holds
# most of the memory goes before everybody.
GREEDY = "python3 -c 'import os; os.fork(); kept = []\nwhile True: kept.append(bytes(range(256)) * 4096)'; echo $?"
# The same until a process is to end, then end well. One alone takes memory, so it looks before it takes more; another
# holds some, so that it has less than seven tenths.
MODEST = """python3 - %s <<'END'
import subprocess, sys
HOLD = 'kept = bytes(range(256)) * (200 << 12); print(flush=True); input()'
def runs():
    try: told = dict(line.split(':', 1) for line in open(f'/proc/{sys.argv[1]}/status'))
    except OSError: return False
    killed = (int(told['SigPnd'], 16) | int(told['ShdPnd'], 16)) & 1 << 8
    return not killed and told['State'].strip()[0] not in 'ZX'
other = subprocess.Popen([sys.executable, '-c', HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
kept = []
while runs(): kept.append(bytes(range(256)) * 4096)
other.communicate(b'\\n')
sys.exit(other.returncode)
END"""
# Uses a processor, and tells what there was at the end of it.
BUSY = """python3 - <<'END'
import glob, time
def spares(): return sum(open(f).read() == 'kernel-spare\\n' for f in glob.glob('/proc/[0-9]*/comm'))
print('busy', flush=True)
end = time.monotonic() + 3
while time.monotonic() < end: pass
print(spares())
END"""


class Spare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('kernels'), 'kernels:latest')

    def box(self, memory='2Gi', entrypoint=('sleep', 'infinity'), **env):
        box = Box(self.daemon, 'kernels:latest', env=env, entrypoint=list(entrypoint),
                  resourceLimits={'cpu': '2', 'memory': memory})
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def create(self, box, **members):
        answer = box.call('POST', '/code/context', {'language': 'python', **members})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json['id']

    def value(self, box, context, code):
        events = box.events('/code', {'code': code, 'context': {'id': context}})
        self.assertEqual([e for e in events if e['type'] in ('error', 'stderr')], [])
        return ''.join(e['text'] for e in events if e['type'] == 'stdout').strip()

    @staticmethod
    def spares(box):
        return [name.split('/')[2] for name in
                box.out('grep -lx kernel-spare /proc/[0-9]*/comm; true').split()]

    def spare(self, box):
        """Its pid, as soon as there is one. Looked for from within: who asks all the time lets no sandbox rest."""
        box.out(f'timeout {30 * atoll.SLOWNESS} sh -c '
                "'until grep -qx kernel-spare /proc/[0-9]*/comm; do sleep 0.2; done' 2>/dev/null")
        one, = self.spares(box)
        return one

    def test_who_claims_it_cannot_tell(self):
        box = self.box()
        self.create(box)
        spare = self.spare(box)
        claimed, forked = self.create(box, cwd='/tmp/far/away'), self.create(box, cwd='/tmp/far/away')
        told = {}
        for context in claimed, forked:
            events = box.events('/code', {'code': MODULES + '\n6 * 7', 'context': {'id': context}})
            told[context] = [[e['execution_count'] for e in events if e['type'] == 'execution_count'],
                             [e['results'] for e in events if e['type'] == 'result']]
        self.assertEqual(told[claimed], [[1], [{'text': '42'}]])
        self.assertEqual(told[claimed], told[forked])
        self.assertEqual(self.value(box, claimed, 'print(os.getpid())'), spare)
        self.assertNotEqual(self.value(box, forked, 'print(os.getpid())'), spare)
        for code in SAME:
            with self.subTest(code=code):
                self.assertEqual(*(self.value(box, one, f'print({code})') for one in (claimed, forked)))
        for code in OTHER:
            with self.subTest(code=code):
                self.assertNotEqual(*(self.value(box, one, f'print({code})') for one in (claimed, forked)))
        self.assertEqual(self.value(box, claimed, 'print(os.getcwd(), random.__name__)'), '/tmp/far/away random')
        # And there is another one, no more.
        self.assertNotEqual(self.spare(box), spare)

    def test_its_shell_is_a_kernels_own(self):
        """As in one that does not come from a zygote."""
        box = self.box()
        box.out(PLAIN)
        self.create(box)
        self.spare(box)
        claimed, forked = self.create(box, cwd='/tmp/away'), self.create(box, cwd='/tmp/away')
        plain = self.create(box, language='plain', cwd='/tmp/away')
        begin = 'import numpy, os, sys, threading\nshell = get_ipython()'
        for context in claimed, forked, plain:
            self.value(box, context, begin)
        for code in SHELL:
            with self.subTest(code=code):
                wanted = self.value(box, plain, f'print({code})')
                self.assertEqual(self.value(box, forked, f'print({code})'), wanted)
                self.assertEqual(self.value(box, claimed, f'print({code})'), wanted)

    def test_a_warmed_sandbox_has_one(self):
        box = self.box(EXECD_WARM='python')
        spare = self.spare(box)
        self.assertEqual(self.value(box, self.create(box), 'import os; print(os.getpid())'), spare)

    def test_it_goes_before_all_others(self):
        """A command takes all memory that there is: the spare is killed before the command is, and nobody else."""
        box = self.box('640Mi')
        context = self.create(box)
        self.value(box, context, 'kept = 1')
        self.spare(box)
        self.assertEqual(box.out(GREEDY).split()[-1], '137')
        self.assertEqual(self.spares(box), [])
        self.assertEqual(self.value(box, context, 'print(kept)'), '1')
        self.assertEqual(self.value(box, self.create(box), 'print(2)'), '2')

    def test_its_end_is_no_news(self):
        """That it made room is no lack of memory; what is killed after it is."""
        box = self.box('640Mi', ('sh', '-c', 'mkfifo /tmp/told; read word </tmp/told; echo $word; '
                                 'exec sleep infinity'))
        self.create(box)
        modest = MODEST % self.spare(box)
        # The host's kernel may take another, too, before it has counted what the first one had.
        another = box.out(f'{modest}\necho $?; until [ -p /tmp/told ]; do :; done; echo here >/tmp/told') != '0'
        self.assertEqual(self.spares(box), [])
        # Notes and the entrypoint's output go to the daemon one after the other.
        diagnostics = f'/v1/sandboxes/{box.id}/diagnostics'
        until(lambda: self.daemon.request('GET', f'{diagnostics}/logs?scope=container')['content'].endswith('here\n'),
              30 * atoll.SLOWNESS, 'the entrypoint is heard')
        events = lambda: self.daemon.request('GET', f'{diagnostics}/events?scope=runtime')['content']
        self.assertEqual(events().count(' OutOfMemory '), another)
        box.out(GREEDY)
        until(lambda: ' OutOfMemory ' in events(), 30 * atoll.SLOWNESS, 'the other one is told of')

    def test_a_busy_sandbox_has_none(self):
        box = self.box()
        response = box.open('POST', '/command', {'command': BUSY})
        seen = b''
        while b'busy' not in seen:
            seen += response.read1(65536)
        self.create(box)
        seen += response.read()
        self.assertIn(rb'"text":"0\n"', seen)
        self.spare(box)

    def test_one_that_hangs_or_has_ended_costs_time(self):
        box = self.box()
        self.create(box)
        for signal in 'STOP', 'KILL':
            with self.subTest(signal=signal):
                spare = self.spare(box)
                box.out(f'kill -{signal} {spare}')
                context = self.create(box)
                self.assertEqual(self.value(box, context, 'print(3)'), '3')
                self.assertNotEqual(self.value(box, context, 'import os; print(os.getpid())'), spare)
                self.assertEqual(box.out(f'test -e /proc/{spare} || echo gone'), 'gone')

    def test_its_environment_is_that_of_now(self):
        box = self.box(EXECD_ENVS='/tmp/envs')
        self.create(box)
        spare = self.spare(box)
        box.out('echo COLOUR=blue >/tmp/envs')
        context = self.create(box)
        self.assertEqual(self.value(box, context, 'import os; print(os.environ["COLOUR"])'), 'blue')
        self.assertNotEqual(self.value(box, context, 'print(os.getpid())'), spare)
        # The old one is of no use to anybody.
        until(lambda: box.out(f'test -e /proc/{spare} || echo gone') == 'gone', 30 * atoll.SLOWNESS, 'it is gone')
        self.assertEqual(self.value(box, self.create(box), 'import os; print(os.environ["COLOUR"])'), 'blue')

    def test_a_directory_that_is_not_there(self):
        """Is told by the ordinary start, and the spare is kept."""
        box = self.box()
        context = self.create(box, cwd='/tmp/here')
        box.events('/code', {'code': '__import__("os")._exit(0)', 'context': {'id': context}})
        spare = self.spare(box)
        box.out('rmdir /tmp/here')
        answer = box.call('POST', '/code', {'code': '1', 'context': {'id': context}})
        self.assertEqual(answer.status, 500)
        self.assertIn(b'/tmp/here', answer.body)
        self.assertEqual(self.spares(box), [spare])


if __name__ == '__main__':
    unittest.main()
