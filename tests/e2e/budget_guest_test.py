"""Budgets of the host that are really used up, programs of the host's that the kernel would run as its
root for a crash or for a module, and what takes a real cgroup v2: in the guest only."""
import ctypes
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

JIT_LIMIT = pathlib.Path('/proc/sys/net/core/bpf_jit_limit')
CORE_PATTERN = pathlib.Path('/proc/sys/kernel/core_pattern')
EPOLL_WATCHES = pathlib.Path('/proc/sys/fs/epoll/max_user_watches')
MODPROBE = pathlib.Path('/proc/sys/kernel/modprobe')
# Each of a family, a type or a protocol that there may be a module for.
SOCKETS = ('alg key rxrpc xfrm netfilter packet vsock dccp dccp6 no-type seqpacket sctp mptcp '
           'stream-udp datagram-tcp icmp6-of-4 icmp-of-6 sock-diag')
LIBC = ctypes.CDLL(None, use_errno=True)
SO_ATTACH_FILTER = 26


class Sysctl:
    """`value` until the end of the block."""

    def __init__(self, path, value):
        self.path, self.value = path, value

    def __enter__(self):
        self.before = self.path.read_text(encoding='ascii')
        self.path.write_text(self.value, encoding='ascii')

    def __exit__(self, *_):
        self.path.write_text(self.before, encoding='ascii')


def attach_filter_as_nobody():
    """0 or the errno of a socket filter, of a process without rights."""
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        code = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0xffff))
        program = struct.pack('HL', 1, ctypes.addressof(code))
        try:
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).setsockopt(
                socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        except OSError as error:
            os._exit(error.errno % 256)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Guest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon, programs=['tests/support/budget-probe'])
        cls.s = Box(cls.daemon, cls.image)

    def test_an_exhausted_budget_for_filters_stops_nobody(self):
        self.assertEqual(attach_filter_as_nobody(), 0)
        with Sysctl(JIT_LIMIT, '1'):
            self.assertNotEqual(attach_filter_as_nobody(), 0)  # it is exhausted
            self.assertEqual(self.s.out('echo alive'), 'alive')
            # More than there are prepared slots.
            for _ in range(6):
                box = Box(self.daemon, self.image)
                self.assertEqual(box.out('grep Seccomp: /proc/self/status').split(),
                                 ['Seccomp:', '2'])
                self.daemon.delete(box.id)

    def test_epoll_watches_are_had_beside_one_who_takes_all(self):
        """Each id's own; by default more than the memory of a sandbox holds. Not of root, who is its execd to the
        kernel, and would keep itself from being asked."""
        box, other = (Box(self.daemon, self.image) for _ in range(2))
        with Sysctl(EPOLL_WATCHES, '5000'):
            held = box.background('/bin/budget-probe epoll hold', uid=1000)
            log = lambda: box.call('GET', f'/command/{held}/logs').body.decode()
            until(lambda: 'held' in log(), 30 * SLOWNESS, 'all are taken')
            self.assertRegex(log(), r'epoll: (49\d\d|5000) ENOSPC')
            self.assertEqual(box.out('echo its own'), 'its own')
            self.assertRegex(other.out('/bin/budget-probe epoll', uid=1000), r'^epoll: (49\d\d|5000) ENOSPC$')
            fresh = Box(self.daemon, self.image)
            self.assertEqual(fresh.out('echo new'), 'new')
            for each in (box, fresh):
                self.daemon.delete(each.id)
        self.daemon.delete(other.id)

    def test_no_socket_makes_the_host_look_for_a_module(self):
        asked, modprobe = self.daemon.top / 'asked', self.daemon.top / 'modprobe'
        modprobe.write_text(f'#!/bin/sh\necho "$3" >>{asked}\nexit 1\n', encoding='ascii')
        modprobe.chmod(0o755)
        names = lambda: asked.read_text(encoding='ascii').split() if asked.exists() else []
        with Sysctl(MODPROBE, str(modprobe)):
            said = self.s.out(f'/bin/attack {SOCKETS}')
            # It does run: for the host's own.
            with self.assertRaises(OSError):
                socket.socket(socket.AF_INET, socket.SOCK_STREAM, 200)
        found = {name for name in names() if name.startswith('net-pf-')}
        self.assertEqual(found, {'net-pf-2-proto-200', 'net-pf-2-proto-200-type-1'})
        self.assertNotIn('ALLOWED', said)

    def test_no_handler_of_the_host_sees_a_crash(self):
        seen, handler = self.daemon.top / 'seen', self.daemon.top / 'handler'
        handler.write_text(f'#!/bin/sh\necho "$1" >>{seen}\n', encoding='ascii')
        handler.chmod(0o755)
        crashes = lambda: seen.read_text(encoding='ascii').split() if seen.exists() else []
        with Sysctl(CORE_PATTERN, f'|{handler} %e'):
            for command in ('kill -SEGV $$', 'ulimit -c 0; kill -SEGV $$',
                            'ulimit -Sc 0; kill -SEGV $$', '/bin/attack core-to-none; kill -SEGV $$'):
                for uid in (0, 1000):
                    self.assertEqual(self.s.run(command, uid=uid)[2]['error']['traceback'],
                                     ['signal: segmentation fault'])
            # It does run: for a crash of the host's, whose limit is 0.
            with subprocess.Popen(['sleep', '99'], preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_CORE, (0, 0))) as crashing:
                crashing.send_signal(signal.SIGSEGV)
            until(lambda: 'sleep' in crashes(), 30 * SLOWNESS, 'the handler runs')
        self.assertEqual(set(crashes()), {'sleep'})


if __name__ == '__main__':
    unittest.main()
