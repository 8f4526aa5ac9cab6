"""Starts the real execd as process 1 of fresh namespaces, as the spawner does.

User, pid, mount, network, ipc and uts namespaces; a tmpfs root with the host's /usr bound
read-only and its own /etc, /dev, /proc; capabilities cut down; a control socket pair, a listening
socket and a cgroup v2 directory as descriptors 3, 4 and 5. Needs root.
"""
import codecs
import ctypes
import errno
import http.client
import json
import os
import signal
import socket
import stat
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
from until import until  # noqa: E402

# Codecs are loaded at their first use, which may be in the sandbox's root.
codecs.lookup('ascii')
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 32, 4096, 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
FIRST_UID = 1_000_000_000
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE
CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10)
EXECD = os.environ.get('ATOLL_EXECD', os.path.join(os.path.dirname(__file__),
                                                   '../../../build/execd/atoll-execd'))
TOKEN_HEADER = 'X-EXECD-ACCESS-TOKEN'


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f'{what}: {os.strerror(number)}')


def mount(source, target, fstype, flags, data=None):
    check(LIBC.mount(source.encode(), target.encode(), fstype.encode() if fstype else None,
                     ctypes.c_ulong(flags), data.encode() if data else None),
          f'mount {target}')


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack('<I', len(raw)) + raw


def strings(values):
    return struct.pack('<I', len(values)) + b''.join(text(v) for v in values)


def start_message(argv, env, cwd='', user='', token='', pre_start=(), authority=('', '')):
    body = text('test') + strings(argv) + strings(env) + text(cwd) + text(user) + text(token)
    body += struct.pack('<I', 1 if pre_start else 0)
    if pre_start:
        body += text('preStart') + text('') + strings(pre_start) + struct.pack('<I', 60)
    body += text(authority[0]) + text(authority[1])
    body += strings([]) + struct.pack('<I', 0)  # no volumes; the usual signal to stop
    return struct.pack('<I', len(body)) + body


PASSWD = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
dev:x:1000:1000::/srv/dev:/bin/sh
other:x:1001:1001::/srv/other:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUP = """root:x:0:
daemon:x:1:
audio:x:29:dev
video:x:44:dev,other
dev:x:1000:
other:x:1001:
nogroup:x:65534:
"""


def build_root(root, tmp_size):
    """Runs inside the new user and mount namespace."""
    mount('none', '/', None, MS_REC | MS_PRIVATE)
    mount('tmpfs', root, 'tmpfs', 0, 'mode=755')
    for name in ('usr', 'etc', 'dev', 'proc', 'tmp', 'root', 'srv/dev', 'var', 'opt', 'run'):
        os.makedirs(f'{root}/{name}')
    os.chown(f'{root}/srv/dev', 1000, 1000)
    mount('/usr', f'{root}/usr', None, MS_BIND | MS_REC)
    for name in ('bin', 'sbin', 'lib', 'lib64', 'lib32'):
        if os.path.islink(f'/{name}'):
            os.symlink(os.readlink(f'/{name}'), f'{root}/{name}')
        elif os.path.isdir(f'/{name}'):
            os.mkdir(f'{root}/{name}')
            mount(f'/{name}', f'{root}/{name}', None, MS_BIND | MS_REC)
    for name, content in (('passwd', PASSWD), ('group', GROUP)):
        with open(f'{root}/etc/{name}', 'w', encoding='utf-8') as file:
            file.write(content)
    mount('tmpfs', f'{root}/tmp', 'tmpfs', MS_NOSUID | MS_NODEV, f'mode=1777,size={tmp_size}')
    for name in ('null', 'zero', 'full', 'random', 'urandom', 'tty'):
        open(f'{root}/dev/{name}', 'wb').close()
        mount(f'/dev/{name}', f'{root}/dev/{name}', None, MS_BIND)
    os.mkdir(f'{root}/dev/shm')
    mount('tmpfs', f'{root}/dev/shm', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=1777,size=64m')
    os.mkdir(f'{root}/dev/pts')
    mount('devpts', f'{root}/dev/pts', 'devpts', 0, 'newinstance,ptmxmode=0666,mode=620')
    os.symlink('pts/ptmx', f'{root}/dev/ptmx')
    mount('proc', f'{root}/proc', 'proc', 0)
    os.chdir(root)
    check(LIBC.pivot_root(b'.', b'.'), 'pivot_root')
    check(LIBC.umount2(b'.', MNT_DETACH), 'umount old root')
    os.chdir('/')


def bring_loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        import fcntl
        request = struct.pack('16sH14x', b'lo', 0x1)
        fcntl.ioctl(s, 0x8914, request + bytes(8))


def drop_capabilities():
    header = struct.pack('<Ii', 0x20080522, 0)
    mask = sum(1 << c for c in CAPABILITIES)
    # CAP_SYS_CHROOT as the spawner passes it: inheritable, outside of the bounding set.
    chroot = 1 << 18
    every = (ctypes.c_uint32 * 6)()
    check(LIBC.capget(header, every), 'capget')
    every[2], every[5] = chroot, 0
    check(LIBC.capset(header, every), 'capset inheritable')
    for capability in range(64):
        if capability not in CAPABILITIES:
            LIBC.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; EINVAL above the last one
    data = struct.pack('<IIIIII', mask | chroot, mask | chroot, chroot, 0, 0, 0)
    check(LIBC.capset(header, data), 'capset')


def sealed_copy(path):
    fd = os.memfd_create('execd', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(path, 'rb') as file:
        os.sendfile(fd, file.fileno(), 0, os.fstat(file.fileno()).st_size)
    os.fchmod(fd, 0o111)
    import fcntl
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0xf)
    return fd


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=20):
        super().__init__('execd', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


class Sandbox:
    """One execd. `start=False` leaves it parked."""

    def __init__(self, argv=('/bin/sleep', '1000'), env=('PATH=/usr/bin:/bin',), cwd='', user='',
                 token='', start=True, cgroup=True, tmp_size='64m', pids=None, setup=None,
                 options=(), **more):
        self.directory = tempfile.mkdtemp(prefix='execd-test-')
        os.chmod(self.directory, 0o755)
        self.socket_path = f'{self.directory}/api'
        self.token = token
        self.options = options
        self.exit_code = None
        self.cgroup = None
        self.control, control = socket.socketpair()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket_path)
        listener.listen(512)
        gate_read, gate_write = os.pipe()
        # First the pass for the sandbox's filter, of which there is none here.
        os.write(gate_write, bytes(8 if '--enter-root=1' in options else 0) + b'+')
        cgroup_fd = self.make_cgroup() if cgroup else None
        execd = sealed_copy(EXECD)
        ready_read, ready_write = os.pipe()
        mapped_read, mapped_write = os.pipe()
        self.parent_pid = os.fork()
        if self.parent_pid == 0:
            try:
                self.child(execd, gate_read, control, listener, cgroup_fd, ready_write, mapped_read, tmp_size,
                           setup)
            except BaseException as error:  # noqa: the child must never return
                os.write(2, f'harness: {error!r}\n'.encode())
            finally:
                os._exit(99)
        os.close(ready_write)
        os.close(mapped_read)
        assert os.read(ready_read, 1) == b'u'
        for kind in ('uid', 'gid'):
            with open(f'/proc/{self.parent_pid}/{kind}_map', 'w', encoding='ascii') as file:
                file.write(f'0 {FIRST_UID} 65536')
        os.write(mapped_write, b'm')
        self.pid = int(os.read(ready_read, 32) or b'0')
        assert self.pid, 'harness child failed'
        if self.cgroup:
            with open(f'{self.cgroup}/execd/cgroup.procs', 'w', encoding='ascii') as file:
                file.write(str(self.pid))
        os.write(mapped_write, b'g')
        for fd in (ready_read, mapped_write, execd):
            os.close(fd)
        for fd in (gate_read, gate_write):
            os.close(fd)
        control.close()
        listener.close()
        if cgroup_fd is not None:
            os.close(cgroup_fd)
        self.report = None
        if start:
            self.start(argv, env, cwd, user, **more)

    def make_cgroup(self):
        self.cgroup = f'/sys/fs/cgroup/unified/atoll-test-{os.getpid()}-{time.monotonic_ns()}'
        if not os.path.isdir('/sys/fs/cgroup/unified'):
            self.cgroup = self.cgroup.replace('/unified', '')
        os.mkdir(self.cgroup)
        os.mkdir(f'{self.cgroup}/execd')
        for path in (self.cgroup, f'{self.cgroup}/cgroup.procs'):
            os.chown(path, FIRST_UID, FIRST_UID)
        return os.open(self.cgroup, os.O_RDONLY | os.O_DIRECTORY)

    def child(self, execd, gate, control, listener, cgroup_fd, ready, mapped, tmp_size, setup):
        LIBC.prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: no sandbox survives its test
        os.setsid()
        check(LIBC.unshare(CLONE_NEWUSER), 'unshare user')
        os.write(ready, b'u')
        os.read(mapped, 1)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        os.setgroups([])
        check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS),
              'unshare')
        first = os.fork()
        if first:
            # The pid as the host sees it: the namespace of this process is still the host's.
            os.write(ready, str(first).encode())
            os.closerange(3, 4096)  # or the sockets' ends would stay open here
            _, status = os.waitpid(first, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xff)
        os.read(mapped, 1)
        LIBC.prctl(1, 9)
        build_root(self.directory, tmp_size)
        bring_loopback_up()
        if setup:
            setup()
        drop_capabilities()
        LIBC.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        fds = [gate, control.fileno(), listener.fileno()]
        fds += [cgroup_fd] if cgroup_fd is not None else []
        high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
        os.dup2(execd, 110)
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)
        os.dup2(os.open('/dev/null', os.O_RDWR), 0)
        os.closerange(3 + len(fds), 110)
        os.closerange(111, 1024)
        os.set_inheritable(110, False)
        os.execve(110, ['execd', *self.options], {})

    def start(self, argv, env, cwd='', user='', **more):
        self.control.sendall(start_message(list(argv), list(env), cwd, user, self.token, **more))
        self.read_report()

    def read_report(self):
        self.control.settimeout(20)
        head = self.receive(4)
        body = self.receive(struct.unpack('<I', head)[0])
        size = struct.unpack('<I', body[1:5])[0]
        self.report = ({1: 'started', 2: 'failed'}[body[0]], body[5:5 + size].decode())

    def receive(self, size):
        out = b''
        while len(out) < size:
            piece = self.control.recv(size - len(out))
            assert piece, 'execd closed the control socket'
            out += piece
        return out

    def connection(self, timeout=20):
        return UnixConnection(self.socket_path, timeout)

    def raw(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(self.socket_path)
        return s

    def call(self, method, path, body=None, headers=None, connection=None):
        own = connection or self.connection()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        headers = dict(headers or {})
        if self.token:
            headers.setdefault(TOKEN_HEADER, self.token)
        own.request(method, path, body=body, headers=headers)
        answer = Answer(own.getresponse())
        if not connection:
            own.close()
        return answer

    def events(self, path, body):
        answer = self.call('POST', path, body)
        assert answer.status == 200, (answer.status, answer.body)
        return parse_events(answer.body)

    def run(self, command, **members):
        """stdout, stderr as lists of texts, and the terminal event."""
        events = self.events('/command', {'command': command, **members})
        pick = lambda kind: [e.get('text', '') for e in events if e['type'] == kind]
        return pick('stdout'), pick('stderr'), events[-1]

    def out(self, command, **members):
        stdout, stderr, last = self.run(command, **members)
        assert last['type'] == 'execution_complete', (last, stderr)
        return ''.join(stdout).removesuffix('\n')

    def leaves(self):
        return [n for n in os.listdir(self.cgroup) if n.startswith('c') and
                os.path.isdir(f'{self.cgroup}/{n}')]

    def processes(self):
        """Host pids of everything in the command leaves."""
        pids = []
        for leaf in self.leaves():
            try:
                with open(f'{self.cgroup}/{leaf}/cgroup.procs', encoding='ascii') as file:
                    pids += [int(p) for p in file.read().split()]
            except OSError as error:  # removed between the listing and the look
                if error.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
        return pids

    def settled(self):
        """How many processes there are when only the entrypoint is left: 1."""
        until(lambda: len(self.processes()) == 1, what='nothing but the entrypoint runs')
        return 1

    def wait_until_blocked(self, name, count):
        """Until `count` processes of that name sleep after having written plenty."""
        def blocked(pid):
            with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
                command, state = file.read().split(') ')[0:2]
            with open(f'/proc/{pid}/io', encoding='ascii') as file:
                written = int(file.read().split('wchar: ')[1].split()[0])
            return command.endswith(f'({name}') and state[0] == 'S' and written > 60000
        until(lambda: sum(map(blocked, self.processes())) >= count, what=f'{name} is blocked')

    def wait(self):
        if self.exit_code is None:
            _, status = os.waitpid(self.parent_pid, 0)
            self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code

    def close(self):
        if self.exit_code is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.wait()
        self.control.close()
        if self.cgroup:
            # The exit of a killed namespace's members may lag behind its first process.
            remove_cgroup(self.cgroup)
        for name in os.listdir(self.directory):
            os.unlink(f'{self.directory}/{name}')
        os.rmdir(self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def remove_cgroup(path):
    for name in os.listdir(path):
        if stat.S_ISDIR(os.lstat(f'{path}/{name}').st_mode):
            remove_cgroup(f'{path}/{name}')

    def removed():
        try:
            os.rmdir(path)
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
    until(removed, what=f'{path} is empty')


def parse_events(body):
    parts = body.decode().split('\n\n')
    assert parts[-1] == '', 'the stream ends with an empty line'
    return [json.loads(part) for part in parts[:-1]]
