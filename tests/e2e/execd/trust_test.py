"""A certificate authority in the start message: what the image is made to trust, and where."""
import os
import unittest

from harness import LIBC, MS_BIND, MS_RDONLY, MS_REMOUNT, Sandbox, mount, start_message, until

PEM = '/opt/opensandbox/mitmproxy-ca-cert.pem'
MERGED = '/opt/opensandbox/merged-ca-certificates.pem'
BUNDLE = '/etc/ssl/certs/ca-certificates.crt'
LINK = 'ae35ec62.0'
MARK = '# opensandbox-mitmproxy-ca\n'
VARIABLES = 'echo $NODE_EXTRA_CA_CERTS $REQUESTS_CA_BUNDLE $SSL_CERT_FILE'
ALL_SET = f'{PEM} {MERGED} {MERGED}'


def pem(body):
    return f'-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n'


OURS, PARENTS, IMAGES = pem('T1VS'), pem('UEFSRU5U'), '# Some Root\n' + pem('SU1BR0U=')
# Without keytool and certutil, which the host may have.
TOOLS = ('sh', 'cat', 'ls', 'sleep', 'stat', 'readlink', 'id', 'mkdir', 'mkfifo', 'rm', 'setsid',
         'touch')


def write(path, text, mode=0o644, owner=0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='ascii') as file:
        file.write(text)
    os.chmod(path, mode)
    os.chown(path, owner, owner)


def image(*more):
    """Makes the image: a bundle, and what `more` add."""
    def make():
        os.mkdir('/opt/tools')
        for tool in TOOLS:
            os.symlink(f'/usr/bin/{tool}', f'/opt/tools/{tool}')
        write(BUNDLE, IMAGES)
        mount('tmpfs', '/usr/local', 'tmpfs', 0, 'mode=755')
        os.makedirs('/usr/local/share/ca-certificates')
        for step in more:
            step()
    return make


def box(*more, authority=(OURS, LINK), env=(), argv=('/usr/bin/sleep', '1000'), **members):
    return Sandbox(argv=argv, env=['PATH=/opt/tools', *env], setup=image(*more),
                   authority=authority, **members)


def log(s):
    return s.call('GET', '/.atoll/entrypoint/logs').body.decode()


class Case(unittest.TestCase):
    def content(self, s, path):
        return s.out(f'cat {path}') + '\n'

    def assert_trusted(self, s, others=IMAGES):
        """The two files, and nothing of ours beside them."""
        self.assertEqual(s.report, ('started', ''))
        self.assertEqual(self.content(s, PEM), OURS)
        self.assertEqual(self.content(s, MERGED), others + MARK + OURS)
        self.assertEqual(s.out('ls -A /opt/opensandbox'),
                         '.env\nmerged-ca-certificates.pem\nmitmproxy-ca-cert.pem')
        self.assertEqual(s.out(VARIABLES), ALL_SET)


class Trust(Case):
    def test_where_programs_look(self):
        with box() as s:
            self.assert_trusted(s)
            self.assertEqual(self.content(s, BUNDLE), IMAGES + MARK + OURS)
            self.assertEqual(self.content(s, '/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt'),
                             MARK + OURS)
            self.assertEqual(s.out(f'readlink /etc/ssl/certs/{LINK}'), PEM)
            self.assertEqual(s.out('ls -A /etc/ssl/certs'), f'{LINK}\nca-certificates.crt')
            self.assertEqual(s.out(f'stat -c %a:%u {PEM} {MERGED} {BUNDLE}'), '644:0\n644:0\n644:0')
            self.assertEqual(log(s), '')

    def test_hook_and_entrypoint_find_it(self):
        seen = f'{VARIABLES}; cat {PEM} {BUNDLE}'
        with box(argv=['sh', '-c', f'{seen}; exec sleep 1000'],
                 pre_start=['sh', '-c', seen], user='dev') as s:
            self.assertEqual(s.out(VARIABLES), ALL_SET)
            until(lambda: log(s) == f'{ALL_SET}\n{OURS}{IMAGES}{MARK}{OURS}' * 2)

    def test_what_is_set_stays(self):
        with box(env=['SSL_CERT_FILE=/mine', 'NODE_EXTRA_CA_CERTS=']) as s:
            self.assertEqual(s.out(VARIABLES), f'{MERGED} /mine')

    def test_without_an_authority_nothing_happens(self):
        with box(authority=('', '')) as s:
            self.assertEqual(self.content(s, BUNDLE), IMAGES)
            self.assertEqual(s.out('ls -A /opt/opensandbox /usr/local/share/ca-certificates /etc/ssl/certs'),
                             '/etc/ssl/certs:\nca-certificates.crt\n\n/opt/opensandbox:\n.env\n\n'
                             '/usr/local/share/ca-certificates:')
            self.assertEqual(s.out(VARIABLES), '')

    def test_a_malformed_authority_starts_nothing(self):
        for authority in ((OURS + 'x', LINK), (OURS, '../../x.0')):
            with box(authority=authority) as s:
                self.assertEqual(s.report, ('failed', 'certificate authority: malformed'))

    def test_a_parents_is_replaced(self):
        def restored():
            write(PEM, PARENTS)
            write(MERGED, IMAGES + MARK + PARENTS)
            # Behind a mark, and as tools leave it that write bundles anew.
            write(BUNDLE, PARENTS + IMAGES + MARK + PARENTS)
            write('/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt', MARK + PARENTS)
            os.symlink(PEM, f'/etc/ssl/certs/{LINK}')
        with box(restored) as s:
            self.assert_trusted(s)
            self.assertEqual(self.content(s, BUNDLE), IMAGES + MARK + OURS)
            self.assertEqual(self.content(s, '/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt'),
                             MARK + OURS)
            self.assertEqual(s.out('ls -A /etc/ssl/certs'), f'{LINK}\nca-certificates.crt')

    def test_its_own_is_not_added_again(self):
        def rolled_back():
            write(BUNDLE, IMAGES + MARK + OURS)
            os.utime(BUNDLE, (1, 1))
        with box(rolled_back) as s:
            self.assert_trusted(s)
            self.assertEqual(self.content(s, BUNDLE), IMAGES + MARK + OURS)
            self.assertEqual(s.out(f'stat -c %Y {BUNDLE}'), '1')

    def test_a_hash_that_others_have(self):
        def taken():
            for number in range(3):
                os.symlink('Some_Root.pem', f'/etc/ssl/certs/{LINK[:-1]}{number}')
        with box(taken) as s:
            self.assertEqual(s.out(f'cd /etc/ssl/certs; readlink {LINK[:-1]}2 {LINK[:-1]}3'),
                             f'Some_Root.pem\n{PEM}')

    def test_bundles_of_other_distributions(self):
        def link(path, target):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        extracted = '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem'
        for path, file in (('/etc/pki/tls/certs/ca-bundle.crt', extracted),
                           ('/etc/ssl/ca-bundle.pem', '/var/lib/ca-certificates/ca-bundle.pem'),
                           ('/etc/ssl/cert.pem', None), (extracted, None)):
            def other(path=path, file=file):
                os.unlink(BUNDLE)
                write(file or path, IMAGES, 0o444, 7)
                if file:
                    link(path, file)
                os.makedirs('/etc/pki/ca-trust/source/anchors')
            with self.subTest(path=path), box(other) as s:
                self.assert_trusted(s)
                self.assertEqual(self.content(s, path), IMAGES + MARK + OURS)
                self.assertEqual(s.out(f'readlink {path}; stat -c %a:%u:%g {file or path}'),
                                 (f'{file}\n' if file else '') + '444:7:7')
                self.assertEqual(
                    self.content(s, '/etc/pki/ca-trust/source/anchors/opensandbox-mitmproxy-ca.pem'),
                    MARK + OURS)

    def test_pythons_where_the_image_has_none(self):
        def python():
            os.unlink(BUNDLE)
            write('/usr/local/lib/python3.11/site-packages/pip/_vendor/certifi/cacert.pem', IMAGES)
        with box(python) as s:
            self.assert_trusted(s)
            self.assertEqual(
                self.content(s, '/usr/local/lib/python3.11/site-packages/pip/_vendor/certifi/cacert.pem'),
                IMAGES)

    def test_none_at_all(self):
        def nothing():
            os.unlink(BUNDLE)
            if os.path.isdir('/usr/lib/python3'):  # the host's, with a pip of its own
                mount('tmpfs', '/usr/lib/python3', 'tmpfs', 0, '')
        with box(nothing) as s:
            self.assert_trusted(s, others='')
            self.assertIn('the image has no bundle', log(s))
            self.assertEqual(s.out('ls -A /etc/ssl/certs'), LINK)


class Hostile(Case):
    """What the image has in the places that execd, as root, reads and writes."""

    def replace(self, path, make):
        def step():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.lexists(path):
                os.unlink(path)
            make(path)
        return step

    def odd(self):
        def device(path):
            open(path, 'wb').close()
            mount('/dev/zero', path, None, MS_BIND)

        def huge(path):
            with open(path, 'w', encoding='ascii') as file:
                file.write(IMAGES)
                file.truncate((4 << 20) + 1)
        return {'FIFO': os.mkfifo, 'directory': os.mkdir, 'loop': lambda path: os.symlink(path, path),
                'device': device, 'huge': huge,
                'secret': lambda path: os.symlink('/etc/passwd', path),
                'nowhere': lambda path: os.symlink('/nowhere', path),
                'descriptor': lambda path: os.symlink('/proc/self/fd/4', path),
                'empty': lambda path: open(path, 'wb').close()}

    def test_bundles_that_are_none(self):
        second = '/etc/ssl/cert.pem'
        for name, make in self.odd().items():
            with self.subTest(name), box(self.replace(BUNDLE, make), lambda: write(second, IMAGES)) as s:
                self.assert_trusted(s)
                self.assertEqual(self.content(s, second), IMAGES + MARK + OURS)

    def test_what_is_in_the_way_of_the_files(self):
        for path in (PEM, MERGED, '/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt'):
            for name, make in self.odd().items():
                if name in ('directory', 'device'):
                    continue
                with self.subTest(path=path, name=name), box(self.replace(path, make)) as s:
                    self.assert_trusted(s)
                    self.assertEqual(s.out('cat /etc/passwd').splitlines()[0], 'root:x:0:0:root:/root:/bin/sh')

    def test_where_they_cannot_be_written_nothing_starts(self):
        def read_only():
            os.makedirs('/opt/opensandbox')
            mount('tmpfs', '/opt/opensandbox', 'tmpfs', MS_RDONLY, '')

        def full():
            os.makedirs('/opt/opensandbox')
            mount('tmpfs', '/opt/opensandbox', 'tmpfs', 0, 'size=4k')
            write('/opt/opensandbox/x', 'x' * 4096)

        def nearly_full():
            os.makedirs('/opt/opensandbox')
            mount('tmpfs', '/opt/opensandbox', 'tmpfs', 0, 'size=4k')
        for step, path, why in ((read_only, PEM, 'Read-only file system'),
                                (full, PEM, 'No space left on device'),
                                (nearly_full, MERGED, 'No space left on device'),
                                (lambda: os.makedirs(PEM + '/x'), PEM, 'Is a directory'),
                                (lambda: os.symlink('/nowhere', '/opt/opensandbox'), PEM,
                                 'No such file or directory'),
                                (lambda: os.mkfifo('/opt/opensandbox'), PEM, 'Not a directory')):
            with self.subTest(why=why, path=path), box(step, argv=['touch', '/tmp/ran']) as s:
                self.assertEqual(s.report[0], 'failed')
                self.assertTrue(s.report[1].startswith(f'certificate authority: write {path}: '), s.report)
                self.assertTrue(s.report[1].endswith(why), s.report)
                self.assertIn(s.wait(), (126, 127))

    def test_a_store_that_cannot_be_written_is_told_of(self):
        def mounted():
            write('/var/bundle', IMAGES)
            mount('/var/bundle', BUNDLE, None, MS_BIND)
            mount('tmpfs', '/usr/local/share/ca-certificates', 'tmpfs', 0, '')
            mount('tmpfs', '/usr/local/share/ca-certificates', 'tmpfs', MS_REMOUNT | MS_RDONLY, '')
        with box(mounted) as s:
            self.assert_trusted(s)
            self.assertEqual(self.content(s, BUNDLE), IMAGES)
            self.assertEqual(s.out('ls -A /etc/ssl/certs'), f'{LINK}\nca-certificates.crt')
            lines = log(s).splitlines()
            self.assertEqual(len(lines), 2, lines)
            self.assertTrue(lines[0].startswith(f'certificate authority: write {BUNDLE}: '), lines)
            self.assertIn('busy', lines[0])
            self.assertIn('ead-only', lines[1])


# Writes down how it was called, and as whom; has what its real self would.
RECORD = '#!/bin/sh\necho "$(id -u) $SSL_CERT_FILE ${0##*/} $*" >>/tmp/calls\n'
KEYTOOL = RECORD + '''case $1 in
-importcert) [ ! -e /tmp/alias ] || { echo "alias already exists"; exit 1; }; cat "$4" >/tmp/alias;;
-delete) rm /tmp/alias;;
esac
'''
CERTUTIL = RECORD + '''case $1 in
-N) touch "$HOME/.pki/nssdb/cert9.db";;
-D) exit 255;;
esac
'''
NSS = '-d sql:/srv/dev/.pki/nssdb'


class Programs(Case):
    def program(self, name, script, owner=0, directory='/opt/bin'):
        def step():
            write(f'{directory}/{name}', script, 0o755, owner)
            os.chown(directory, owner, owner)
        return step

    def run_box(self, *more, argv=('/bin/sh', '-c', 'echo "entrypoint" >>/tmp/calls; exec sleep 1000'),
                user='dev'):
        # /tmp/calls is written by two users.
        return box(lambda: write('/tmp/calls', '', 0o666), *more, argv=argv, user=user,
                   env=['PATH=/opt/bin:/opt/tools'])

    def calls(self, s):
        until(lambda: s.out('cat /tmp/calls').endswith('entrypoint'))
        lines = s.out('cat /tmp/calls').splitlines()[:-1]
        self.assertTrue(all(line.split()[1] == MERGED for line in lines), lines)
        return [' '.join([line.split()[0], *line.split()[2:]]) for line in lines]

    def import_call(self, uid=0, store='-cacerts'):
        return (f'{uid} keytool -importcert -noprompt -file {PEM} {store} -storepass changeit '
                '-alias opensandbox-mitmproxy')

    def test_java(self):
        with self.run_box(self.program('keytool', KEYTOOL)) as s:
            self.assertEqual(self.calls(s), [self.import_call()])
            self.assertEqual(self.content(s, '/tmp/alias'), OURS)
            self.assertEqual(log(s), '')

    def test_java_8_and_a_parents(self):
        def store():
            write('/opt/jdk/jre/lib/security/cacerts', 'x')
            write('/tmp/alias', PARENTS)
            os.makedirs('/opt/bin')
            os.symlink('/opt/jdk/jre/bin/keytool', '/opt/bin/keytool')
        with self.run_box(store, self.program('keytool', KEYTOOL, directory='/opt/jdk/jre/bin')) as s:
            store = '-keystore /opt/jdk/jre/lib/security/cacerts'
            self.assertEqual(self.calls(s), [
                self.import_call(store=store),
                f'0 keytool -delete {store} -storepass changeit -alias opensandbox-mitmproxy',
                self.import_call(store=store)])
            self.assertEqual(self.content(s, '/tmp/alias'), OURS)
            self.assertEqual(log(s), '')

    def test_nobody_but_root_has_root_run_a_program(self):
        with self.run_box(self.program('keytool', KEYTOOL, owner=1000),
                          lambda: os.chown('/opt/bin', 0, 0)) as s:
            self.assertEqual(self.calls(s), [self.import_call(uid=1000)])

        def linked():
            os.symlink('/opt/jdk/keytool', '/opt/bin/keytool')
        # Root's program, called by a name that somebody else has given to it.
        with self.run_box(self.program('other', RECORD, owner=1000), linked,
                          self.program('keytool', KEYTOOL, directory='/opt/jdk')) as s:
            self.assertEqual(self.calls(s), [self.import_call(uid=1000)])

    def test_nss(self):
        add = f'1000 certutil -A -n opensandbox-mitmproxy -t C,, -i {PEM} {NSS}'
        with self.run_box(self.program('certutil', CERTUTIL)) as s:
            self.assertEqual(self.calls(s), [f'1000 certutil -N --empty-password {NSS}', add])
            self.assertEqual(s.out('stat -c %u /srv/dev/.pki /srv/dev/.pki/nssdb'), '1000\n1000')
            self.assertEqual(log(s), '')

        def present():
            write('/srv/dev/.pki/nssdb/cert9.db', '', owner=1000)
        with self.run_box(present, self.program('certutil', CERTUTIL)) as s:
            self.assertEqual(self.calls(s), [f'1000 certutil -D -n opensandbox-mitmproxy {NSS}', add])

    def test_failures_are_told_and_no_more(self):
        fails = RECORD + 'echo its last words; exit 3\n'
        with self.run_box(self.program('keytool', fails), self.program('certutil', fails)) as s:
            self.assertEqual(len(self.calls(s)), 5)
            self.assertEqual(log(s), '''\
certificate authority: Java's trust store: /opt/bin/keytool: exit status 3: its last words
certificate authority: NSS database: /opt/bin/certutil: exit status 3: its last words
''')
        with self.run_box(self.program('keytool', '#!/nowhere\n'),
                          lambda: write('/srv/dev/.pki', 'x', owner=1000),
                          self.program('certutil', CERTUTIL)) as s:
            self.assertEqual(self.calls(s), [])
            lines = log(s).splitlines()
            self.assertEqual(len(lines), 2, lines)
            self.assertIn('keytool: exec /opt/bin/keytool: No such file', lines[0])
            self.assertIn('NSS database: /opt/bin/certutil: ', lines[1])

    def test_nothing_runs_beside_them_and_nothing_of_them_stays(self):
        waits = RECORD + 'mkfifo /tmp/go; setsid sleep 4242 & read x </tmp/go; kill -0 $!\n'
        with Sandbox(start=False, setup=image(lambda: write('/tmp/calls', '', 0o666),
                                              self.program('keytool', waits))) as s:
            s.control.sendall(start_message(
                ['/bin/sh', '-c', 'echo entrypoint >>/tmp/calls; exec sleep 1000'],
                ['PATH=/opt/bin:/opt/tools'], authority=(OURS, LINK)))
            go = f'/proc/{s.pid}/root/tmp/go'
            until(lambda: os.path.exists(go))
            with s.raw() as client:
                client.sendall(b'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n')
                client.settimeout(0.2)
                with self.assertRaises(TimeoutError):
                    client.recv(1)
                with open(go, 'w', encoding='ascii') as file:
                    file.write('\n')
                s.read_report()
                client.settimeout(10)
                self.assertIn(b'200 OK', client.recv(4096))
            self.assertEqual(self.calls(s), [self.import_call()])
            self.assertEqual(log(s), '')
            self.assertEqual(s.settled(), 1)


if __name__ == '__main__':
    LIBC.prctl(1, 0)
    unittest.main()
