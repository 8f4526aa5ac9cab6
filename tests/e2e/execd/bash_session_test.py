"""Bash sessions are one bash: typical sequences beside `bash -i` in a terminal, and what ends or hurts a shell."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import termios
import unittest

from harness import Sandbox, until

PROMPT = re.compile(rb'<<(\d+)>>')
# Each step is what somebody types before the next prompt.
SEQUENCES = {
    'variables': ['a=1; b="two words"', 'echo "$a|$b"', 'unset a; echo "${a-gone}"'],
    'exports': ['export E="x y"', 'sh -c \'echo "$E"\'', 'export -n E; sh -c \'echo "[$E]"\''],
    'arrays': ['l=(1 2 "3 4"); declare -A m=([k]=v)', 'echo ${#l[@]} "${l[2]}" ${m[k]}', 'l+=(5); echo ${l[@]: -1}'],
    'integers': ['declare -i n=3; n+=4', 'echo $n', 'readonly r=1', 'r=2', 'echo $r'],
    'functions': ['f() { echo "f $1"; return 3; }', 'f x', 'echo $?', 'unset -f f; f'],
    'recursion': ['fac() { (( $1 < 2 )) && echo 1 || echo $(( $1 * $(fac $(($1 - 1))) )); }', 'fac 5'],
    'aliases': ["alias hey='echo hey'", 'hey you', 'unalias hey; hey'],
    'status': ['false', 'echo $?', '(exit 7)', 'echo $?', 'true | false; echo ${PIPESTATUS[@]}'],
    'pipefail': ['set -o pipefail', 'false | true', 'set +o pipefail', 'false | true'],
    'nounset': ['set -o noglob', 'echo *', 'set +o noglob; set -o | grep noglob'],
    'shopt': ['shopt -s nullglob', 'echo no*where', 'shopt -u nullglob', 'echo no*where', 'shopt nullglob'],
    'umask': ['umask 027', 'umask', 'touch u; stat -c %a u', 'umask -S'],
    'directories': ['mkdir -p d/e; cd d/e', 'basename "$PWD"', 'cd ..; basename "$PWD"', 'cd - >/dev/null; basename "$PWD"'],
    'pushd': ['mkdir -p p q', 'pushd p >/dev/null; pushd ../q >/dev/null', 'dirs -p | wc -l', 'popd >/dev/null; basename "$PWD"'],
    'removed directory': ['mkdir gone; cd gone; rmdir ../gone', 'ls', 'touch x 2>/dev/null', 'cd /; pwd'],
    'jobs': ['sleep 600 &', 'jobs', 'kill %1; wait %1', 'jobs'],
    'wait': ['(exit 5) & p=$!', 'wait $p', 'wait $p 2>/dev/null; wait 1'],
    'last job': ['sleep 600 & true', 'kill $!', 'wait $! 2>/dev/null', 'kill -0 $! 2>/dev/null'],
    'disown': ['sleep 600 & d=$!; disown', 'jobs', 'kill $d'],
    'traps': ["trap 'echo usr1' USR1", 'kill -USR1 $$', 'trap -p USR1', 'trap - USR1; trap -p USR1'],
    'exit trap': ["trap 'echo bye' EXIT", 'trap -p EXIT', 'echo on', 'trap - EXIT; trap -p EXIT'],
    'descriptors': ['exec 3>three', 'echo to three >&3', 'exec 3>&-; cat three', 'echo x >&3'],
    'descriptor ten': ['exec 10>ten', 'echo to ten >&10', 'exec 10>&-; cat ten', 'echo x >&10'],
    'redirected': ['exec 5>&1 >out', 'echo hidden', 'exec >&5 5>&-', 'cat out'],
    'heredoc': ["cat <<'END'\n$not \"expanded\"\n'quoted'\nEND", 'n=1; cat <<END\nn is $n\nEND', 'cat <<<here'],
    'loops': ['for i in 1 2 3; do\n  [ $i = 2 ] && continue\n  echo $i\ndone', 'echo $i', 'while read x; do echo "<$x>"; done <<<$\'a\\nb\''],
    'break': ['while :; do break; done; echo $?', 'return 3 2>/dev/null; echo went on'],
    'case': ['case abc in\n  a*) echo yes;;\n  *) echo no;;\nesac', '[[ abc =~ (b)c ]] && echo ${BASH_REMATCH[1]}'],
    'substitution': ['x=$(echo out; echo err >&2)', 'echo "$x"', 'cat <(echo a) <(echo b)', 'echo one >h; echo $(< h)'],
    'arithmetic error': ['echo $((1 / 0)); echo not', 'echo on'],
    'unknown': ['nosuchcommand', './nosuchfile', 'echo $?'],
    'source': ["echo 's=sourced; return 4' >s.sh", '. ./s.sh', 'echo $s', 'source nosuch.sh'],
    'positional': ['set -- a "b c"', 'echo $# "$2"', 'shift; echo "$@"'],
    'own names': ['echo $0 $- | grep -c i >/dev/null; echo $0', 'echo "[${BASH_SOURCE[0]}]"', '[ $$ = $BASHPID ]; echo $?'],
    'command not kept': ['TEMP=1 env | grep ^TEMP', 'echo "[$TEMP]"', 'IFS=,; x="a,b"; echo $x', 'read p q <<<"1,2"; echo $q'],
}


def plain(text):
    """Without job notices, which only a terminal gets, and without line numbers, which only a script has."""
    text = text.replace('\r', '')
    text = re.sub(r'bash: line \d+: ', 'bash: ', text)
    lines = [line for line in text.split('\n')
             if not re.match(r'\[\d+\] \d+$|\[\d+\][-+]? +(Done|Terminated|Exit)', line)]
    return [line for line in lines if line]


class Typed:
    """A real one, in a terminal."""

    def __init__(self, directory):
        self.master, slave = pty.openpty()
        mode = termios.tcgetattr(slave)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        self.shell = subprocess.Popen(
            ['bash', '--noprofile', '--norc', '--noediting', '-i'], stdin=slave, stdout=slave, stderr=slave,
            cwd=directory, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={'PATH': '/usr/bin:/bin', 'HOME': '/root', 'PS1': '<<$?>>', 'PS2': '', 'HISTFILE': ''})
        os.close(slave)
        self.read()

    def read(self):
        seen = b''
        while not PROMPT.search(seen):
            assert select.select([self.master], [], [], 60)[0], seen
            seen += os.read(self.master, 65536)
        return PROMPT.sub(b'', seen).decode(), int(PROMPT.search(seen)[1])

    def run(self, step):
        os.write(self.master, step.encode() + b'\n')
        return self.read()

    def close(self):
        self.shell.kill()
        self.shell.wait()
        os.close(self.master)


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox(env=['PATH=/usr/bin:/bin', 'HOME=/root', 'EXECD_ENVS=/tmp/envs'],
                        setup=lambda: os.symlink('/proc/self/fd', '/dev/fd'))
        cls.addClassCleanup(cls.s.close)

    def setUp(self):
        self.session_id = self.session()

    def session(self, **body):
        session = self.s.call('POST', '/session', body).json['session_id']
        self.addCleanup(self.s.call, 'DELETE', f'/session/{session}')
        return session

    def run_(self, command, **members):
        """What it printed, and its status: -1 if a signal has ended it."""
        events = self.s.events(f'/session/{self.session_id}/run', {'command': command, **members})
        self.last = events[-1]
        status = 0 if self.last['type'] == 'execution_complete' else int(self.last['error']['evalue'])
        return '\n'.join(e['text'] for e in events if e['type'] == 'stdout'), status

    def out(self, command, **members):
        text, status = self.run_(command, **members)
        self.assertEqual(status, 0, text)
        return text


class BesideATerminal(Base):
    def compare(self, name):
        directory = tempfile.mkdtemp(prefix='bash-session-')
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.session_id = self.session(cwd=directory)
        typed = Typed(directory)
        try:
            for step in SEQUENCES[name]:
                text, status = typed.run(step)
                ours, our_status = self.run_(step)
                self.assertEqual((plain(ours), our_status), (plain(text), status), step)
        finally:
            typed.close()


def beside(name):
    return lambda self: self.compare(name)


for _name in SEQUENCES:
    setattr(BesideATerminal, 'test_' + _name.replace(' ', '_'), beside(_name))


class Kept(Base):
    """What is left of a run that ended badly."""

    def test_pkill_does_not_end_its_own_shell(self):
        self.assertEqual(self.run_('cd /usr; export A=1; pkill -f some-word-of-mine; echo on'), ('on', 0))
        self.assertEqual(self.out('pwd; echo $A'), '/usr\n1')

    def test_a_script_of_any_size(self):
        for size in (131072, 4 << 20):
            body = 'x' * 63 + '\n'
            script = "cat >/tmp/patch <<'END'\n" + body * (size // 64) + 'END\nstat -c %s /tmp/patch; P=' + str(size)
            self.assertEqual(self.out(script), str(size))
            self.assertEqual(self.out('echo $P'), str(size))

    def test_a_removed_directory(self):
        self.assertEqual(self.run_('mkdir -p /tmp/w/x; cd /tmp/w/x; rm -r /tmp/w'), ('', 0))
        self.assertEqual(self.out('echo on'), 'on')
        # Also where the shell has ended there.
        self.assertEqual(self.run_('exit 3'), ('', 3))
        self.assertEqual(self.out('touch here 2>/dev/null || echo nowhere; cd / 2>/dev/null; pwd'), 'nowhere\n/')

    def test_an_exit_trap_and_the_state(self):
        self.assertEqual(self.run_("trap 'echo bye $?' EXIT; cd /usr; A=plain; exit 3"), ('bye 3', 3))
        self.assertEqual(self.out('pwd; echo $A; trap -p EXIT'), '/usr\nplain')
        # One that was set in a file, unseen.
        self.out("echo \"trap 'echo bye' EXIT\" >/tmp/sets; . /tmp/sets")
        self.assertEqual(self.out('trap -p EXIT'), "trap -- 'echo bye' EXIT")
        self.assertEqual(self.run_('B=1; exit'), ('bye', 0))
        self.assertEqual(self.out('echo $B'), '1')

    def test_errexit(self):
        self.assertEqual(self.run_('set -e; cd /usr; V=1; false; echo no'), ('', 1))
        self.assertEqual(self.out('pwd; echo $V; set +e; false; echo on'), '/usr\n1\non')
        self.assertEqual(self.run_('set -u; W=1; echo $nosuch; echo no')[1], 1)
        self.assertEqual(self.out('set +u; echo $W'), '1')

    def test_everything_outlives_the_shell(self):
        self.out("shopt -s extglob\nv=plain; f() { case $1 in +([0-9])) echo number;; esac; }; a=(1 2)\n"
                 "declare -A m=([k]='v w'); alias hi='echo hi'; umask 077; set -o pipefail; trap 'echo t' USR2; "
                 'printf -v odd "a\\nb\\t\\$(x)"; declare -i i=4; export X="q\\"q"')
        self.assertEqual(self.run_('exit 5'), ('', 5))
        self.assertEqual(self.out('echo $? $v ${a[1]} "${m[k]}" $i "$X"; f 12; hi; umask; trap -p USR2; '
                                  'set -o | grep pipefail; printf "%q\\n" "$odd"'),
                         "5 plain 2 v w 4 q\"q\nnumber\nhi\n0077\ntrap -- 'echo t' SIGUSR2\n"
                         "pipefail       \ton\n$'a\\nb\\t$(x)'")

    def test_a_large_state(self):
        self.out('big=$(head -c 3000000 /dev/zero | tr "\\0" x); small=1')
        self.run_('exit')
        self.assertEqual(self.out('echo ${#big} $small'), '3000000 1')
        # What is too much is said.
        self.out('big=$(head -c 9000000 /dev/zero | tr "\\0" x); cd /usr')
        self.assertEqual(self.out('echo ${#big}'), '9000000')
        self.run_('exit')
        text = self.out('echo ${#big} $small; pwd')
        self.assertIn('8 MiB', text)
        self.assertTrue(text.endswith('3000000 1\n/usr'), text)
        self.assertEqual(self.out('echo on'), 'on')

    def test_a_timeout(self):
        self.out('sleep 600 & earlier=$!; v=1')
        text, status = self.run_('cd /usr; v=2; echo begun; setsid sleep 4321 & sleep 4322', timeout=300)
        self.assertEqual((text, status), ('begun', -1))
        self.assertIn('timeout', self.last['error']['traceback'][0])
        self.assertEqual(self.out('pwd; echo $v; kill -0 $earlier && echo lives; '
                                  # A killed process is there until it has run once more.
                                  'while pgrep -f "sleep 432[12]" >/dev/null; do :; done'),
                         '/usr\n2\nlives')
        for script in ('cd /bin; while :; do :; done', "cd /bin; trap '' TERM INT HUP; sleep 4323; sleep 4324",
                       'cd /bin; x=$(sleep 4325)', 'cd /bin; f() { sleep 4326 | cat; }; f; cd /',
                       "cd /bin; trap '' VTALRM; sleep 4327; sleep 4328", 'cd /bin; exec sleep 4329'):
            with self.subTest(script):
                self.out('cd /usr')
                self.assertEqual(self.run_(script, timeout=200), ('', -1))
                self.assertIn(self.out('pwd'), ('/bin', '/usr/bin'))

    def test_a_client_that_leaves(self):
        self.out('cd /tmp')
        connection = self.s.connection()
        connection.request('POST', f'/session/{self.session_id}/run',
                           json.dumps({'command': 'cd /usr; echo on; sleep 4330'}))
        response = connection.getresponse()
        seen = b''
        while b'"on"' not in seen:
            seen += response.read1(1000)
        response.close()
        connection.close()
        until(lambda: self.s.run('pgrep -f "sleep 433[0]"')[2]['type'] == 'error')
        self.assertEqual(self.out('pwd'), '/usr')

    def test_ends_of_the_shell(self):
        self.out('cd /usr; v=1')
        for script, ended in (('exec true', ('', 0)), ('exec false', ('', 1)), ('kill -9 $$', ('', -1)),
                              ('exec echo replaced', ('replaced', 0)), ('echo x; exit', ('x', 0)),
                              ('exit 255', ('', 255)), ('break 9', ('', 0)), ('kill -HUP $$', ('', -1))):
            with self.subTest(script):
                self.assertEqual(self.run_(script), ended)
                self.assertEqual(self.out('pwd; echo $v'), '/usr\n1')

    def test_closed_descriptors(self):
        for script in ('exec 3>&-', 'exec 0<&-', 'exec 10>&- 11>&- 255>&-', 'exec 247<&-'):
            with self.subTest(script):
                self.assertEqual(self.run_(script), ('', 0))
                self.assertEqual(self.out('echo on; cat'), 'on')
        self.assertEqual(self.run_('exec 1>&-; true'), ('', 0))
        self.assertEqual(self.run_('echo x 2>/dev/null'), ('', 1))
        self.assertEqual(self.run_('exec 2>&-; exit 4'), ('', 4))
        self.assertEqual(self.out('echo back'), 'back')

    def test_traces(self):
        self.assertEqual(self.out('set -x; echo a'), '++ echo a\na')
        self.assertEqual(self.out('echo b'), '++ echo b\nb')
        self.assertEqual(self.out('set +x; echo c'), '++ set +x\nc')
        self.assertEqual(self.out('set -v; :\necho d'), 'echo d\nd')
        self.assertEqual(self.out(':\nset +v'), 'set +v')
        self.assertEqual(self.out('echo e'), 'e')


class Output(Base):
    def test_of_earlier_runs(self):
        """What a run has left in the background prints into nobody's output."""
        self.assertEqual(self.out('(while [ ! -e /tmp/stop ]; do echo late; sleep 0.01; done; echo done >/tmp/stopped) &'
                                  '\necho first').replace('late', '').strip(), 'first')
        for i in range(20):
            self.assertEqual(self.run_(f'echo {i}; (exit {i}); sleep 0.02')[0], str(i))
        self.assertEqual(self.out('jobs -p | wc -l; touch /tmp/stop; wait; cat /tmp/stopped'), '1\ndone')
        self.assertEqual(self.s.out('ls -A /dev/shm'), '')

    def test_a_filter_of_the_shell_stays(self):
        self.out('exec 6>&1 > >(sed -u s/^/f:/)')
        until(lambda: 'f:seen' in self.run_('echo seen; sleep 0.05')[0])
        self.out('exec >&6 6>&-')

    def test_much(self):
        text, status = self.run_('yes 0123456789 | head -n 300000; exit 6')
        self.assertEqual((len(text), status), (300000 * 11 - 1, 6))
        self.assertEqual(self.out('seq 100000').count('\n'), 99999)

    def test_forged_reports(self):
        """Whoever writes to the shell's socket fools himself, and nobody else."""
        self.run_("printf 's0 \\0d/x\\0e\\0vrubbish\\0garbage\\0s\\0' >&248; head -c 100000 /dev/urandom >&248")
        other = self.session()
        events = self.s.events(f'/session/{other}/run', {'command': 'echo on'})
        self.assertEqual([e['text'] for e in events if e['type'] == 'stdout'], ['on'])
        self.assertEqual(self.s.call('DELETE', f'/session/{self.session_id}').status, 200)

    def test_no_program_has_more_descriptors(self):
        for _ in range(2):
            self.assertEqual(self.out('ls /proc/self/fd'), '0\n1\n2\n3')
            self.assertEqual(self.out('(sleep 0; ls /proc/self/fd) & wait'), '0\n1\n2\n3')
        self.assertEqual(self.run_('echo x >&3')[1], 1)
        self.assertEqual(self.out('env | grep -c atoll || true'), '0')
        self.assertEqual(self.out('set -a; x=1; env | grep atoll || true; set +a'), '')


class Sessions(Base):
    def test_a_run_beside_another_one(self):
        self.out('v=1; cd /usr')
        connection = self.s.connection()
        connection.request('POST', f'/session/{self.session_id}/run', json.dumps(
            {'command': 'echo on; until [ -e /tmp/go ]; do sleep 0.01; done; v=main'}))
        response = connection.getresponse()
        seen = b''
        while b'"on"' not in seen:
            seen += response.read1(1000)
        self.assertEqual(self.out('pwd; echo $v; v=other; touch /tmp/go'), '/usr\n1')
        self.assertIn(b'execution_complete', response.read())
        connection.close()
        self.assertEqual(self.out('echo $v'), 'main')

    def test_working_directory_variables(self):
        self.s.out('mkdir -p "/tmp/a b/c" /tmp/of-file; echo D=/tmp/of-file >/tmp/envs')
        self.assertEqual(self.out('pwd', cwd='$D'), '/tmp/of-file')
        self.out('export ROOT="/tmp/a b"; export LONGER=$ROOT/c; plain=/usr')
        self.assertEqual(self.out('pwd', cwd='$ROOT/c'), '/tmp/a b/c')
        self.assertEqual(self.out('pwd; cd -', cwd='${ROOT}'), '/tmp/a b\n/tmp/a b/c')
        self.assertEqual(self.out('cd; export HOME=/tmp; pwd'), '/root')
        self.assertEqual(self.out('pwd', cwd='~/of-file'), '/tmp/of-file')
        for cwd in ('$plain', '$NOSUCH', '/nope', '$(pwd)'):
            answer = self.s.call('POST', f'/session/{self.session_id}/run', {'command': 'true', 'cwd': cwd})
            self.assertEqual((answer.status, answer.json['code']), (400, 'INVALID_REQUEST_BODY'), cwd)
        session = self.session(cwd='$D/made')
        self.assertEqual(self.s.events(f'/session/{session}/run', {'command': 'pwd'})[2]['text'],
                         '/tmp/of-file/made')

    def test_delete_ends_all_processes(self):
        self.s.settled()  # what the session of the case before has left takes a moment to end
        self.out('sleep 600 & setsid -f sleep 601')
        self.out('sleep 602 >/dev/null 2>&1 &')
        self.run_('sleep 603 & exit 1')
        self.out('sleep 604 &')
        self.assertGreaterEqual(len(self.s.processes()), 6)
        self.s.call('DELETE', f'/session/{self.session_id}')
        self.s.settled()

    def test_nul(self):
        answer = self.s.call('POST', f'/session/{self.session_id}/run', {'command': 'echo a\0b'})
        self.assertEqual(answer.status, 400)


if __name__ == '__main__':
    unittest.main()
