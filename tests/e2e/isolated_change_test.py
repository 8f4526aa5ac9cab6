"""What an isolated session has changed: told by diff, given to its sandbox by commit."""
import io
import os
import tarfile
import time
import unittest

from atoll import SLOWNESS
from box import Box
from isolated import Isolated, Session


class Changes(Isolated):
    """What a session tells of its changes, and what becomes the sandbox's."""

    def changes(self, session):
        answer = session.call('GET', '/diff')
        self.assertEqual((answer.status, answer.json['truncated']), (200, False), answer.body)
        return {(i['path'], i['kind'], i['type']) for i in answer.json['items']}

    def commit(self, session):
        answer = session.call('POST', '/commit')
        self.assertEqual(answer.status, 200, answer.body)
        return tuple(answer.json[kind] for kind in ('added', 'modified', 'deleted'))

    def tree(self, path, who=None):
        """Names, modes, owners, times and contents of all below."""
        return (who or self.box).out(
            f'cd {path} && find . ! -path "./.execd*" | sort | while read -r f; do '
            'stat -c "%N %f %u %g" "$f"; '
            '[ -d "$f" ] || stat -c %Y "$f"; if [ -f "$f" ] && [ ! -L "$f" ]; then md5sum <"$f"; '
            'fi; done')

    def changed(self):
        """A session that has changed a directory in every way."""
        self.box.out('rm -rf /c; mkdir -p /c/kept /c/hidden/in /c/todir /c/gone/in; cd /c; '
                     'for f in same touched/.. edited mode kept/f hidden/f hidden/in/f gone/in/f '
                     'tolink todirfile; do [ -d "$f" ] || echo low >"$f"; done; ln -s edited link')
        session = self.session(workspace={'path': '/c'})
        session.out('echo new >edited; chmod 600 mode; echo x >kept/g; rm -r gone; '
                    'rm -r hidden; mkdir -p hidden/deep; echo y >hidden/deep/g; echo z >hidden/f; '
                    'rm tolink; ln -s /etc/passwd tolink; rm todirfile; mkdir todirfile; '
                    'echo w >todirfile/f; rm -r todir; echo v >todir; ln -sf mode link; '
                    'mkfifo pipe; mkdir -m 555 sealed; : >>same; chown 1000:1001 kept/g; '
                    'mkdir -m 555 sealed/below; touch same -r same')
        return session

    ALL = {('edited', 'modified', 'file'), ('mode', 'modified', 'file'), ('kept/g', 'added', 'file'),
           ('gone', 'deleted', 'directory'), ('hidden/in', 'deleted', 'directory'),
           ('hidden/deep', 'added', 'directory'), ('hidden/deep/g', 'added', 'file'),
           ('hidden/f', 'modified', 'file'), ('tolink', 'modified', 'link'),
           ('todirfile', 'modified', 'directory'), ('todirfile/f', 'added', 'file'),
           ('todir', 'modified', 'file'), ('link', 'modified', 'link'), ('pipe', 'added', 'pipe'),
           ('sealed', 'added', 'directory'), ('sealed/below', 'added', 'directory')}

    def test_list(self):
        session = self.changed()
        self.assertEqual(self.changes(session), {('/c/' + p, k, t) for p, k, t in self.ALL})
        item = [i for i in session.call('GET', '/diff?format=list').json['items']
                if i['path'] == '/c/edited']
        self.assertEqual(item, [{'path': '/c/edited', 'kind': 'modified', 'type': 'file', 'size': 4}])
        # What nobody has changed is in no list.
        self.assertEqual(self.changes(self.session(workspace={'path': '/c'})), set())
        self.refused(session.call('GET', '/diff?format=zip'), 400, 'INVALID_REQUEST_BODY')
        for mode in ({'mode': 'rw'}, {'mode': 'ro'}, {'mode': 'overlay', 'persist': False}):
            other = self.session(workspace=None, overlays=[{'path': '/c', **mode}])
            self.refused(other.call('GET', '/diff'), 400, 'RUNTIME_ERROR')
            self.refused(other.call('POST', '/commit'), 400, 'RUNTIME_ERROR')

    def test_tar(self):
        session = self.changed()
        answer = session.call('GET', '/diff?format=tar')
        self.assertEqual((answer.status, answer.headers['Content-Type']), (200, 'application/x-tar'))
        with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
            names = {m.name: m for m in archive}
            self.assertEqual(archive.extractfile('c/edited').read(), b'new\n')
        expected = {'c/' + p for p, k, t in self.ALL if k != 'deleted' and t != 'pipe'}
        self.assertEqual(set(names), expected | {'c/.wh.gone', 'c/hidden/.wh.in'})
        self.assertEqual((names['c/kept/g'].uid, names['c/kept/g'].gid), (1000, 1001))
        self.assertEqual(names['c/tolink'].linkname, '/etc/passwd')
        self.assertEqual(names['c/.wh.gone'].size, 0)

    def test_commit(self):
        session = self.changed()
        session.out('rm pipe; touch -h -d @1000000000 tolink')
        session.upload('/c/large', os.urandom(5 << 20))
        self.assertEqual(self.commit(session), (7, 7, 2))
        self.assertEqual(self.tree('/c'), self.tree('/c', session))
        # All of it is there: nothing is left to do, for a second one either.
        self.assertEqual(self.changes(session), set())
        self.assertEqual(self.commit(session), (0, 0, 0))
        # The session goes on, with what it adds and with what the sandbox has added where it is seen.
        session.out('echo more >kept/h; rm edited')
        self.box.out('echo theirs >/c/kept/i')
        self.assertEqual(self.commit(session), (1, 0, 1))
        self.assertEqual(self.box.out('cd /c; cat kept/h kept/i; ls edited 2>&1 || true'),
                         'more\ntheirs\nls: edited: No such file or directory')
        self.box.out('rm -r /c')

    def test_several_overlays(self):
        self.box.out('rm -rf /o; mkdir -p /o/a /o/b /o/rw; echo low >/o/b/f')
        session = self.session(workspace=None, overlays=[
            {'path': '/o/rw', 'mode': 'rw'}, {'path': '/o/a'}, {'path': '/o/b'}])
        session.out('echo x >/o/a/f; rm /o/b/f; echo y >/o/rw/f')
        self.assertEqual(self.changes(session), {('/o/a/f', 'added', 'file'),
                                                 ('/o/b/f', 'deleted', 'file')})
        self.assertEqual(self.commit(session), (1, 0, 1))
        self.assertEqual(self.box.out('cd /o; find . -type f | sort'), './a/f\n./rw/f')
        self.box.out('rm -r /o')

    def test_what_two_have_changed(self):
        """File by file the last commit counts; what one has not touched it leaves."""
        self.box.out('rm -rf /t; mkdir /t; echo low >/t/both')
        first, second = self.session(workspace={'path': '/t'}), self.session(workspace={'path': '/t'})
        first.out('echo first >both; echo 1 >one')
        second.out('echo second >both; echo 2 >two')
        self.commit(first)
        self.commit(second)
        self.assertEqual(self.box.out('cd /t; cat both one two'), 'second\n1\n2')
        self.box.out('rm -r /t')

    def test_as_the_sessions_user(self):
        """Neither reads what that user may not, nor writes where it may not."""
        self.box.out('rm -rf /u; mkdir -p /u/roots; echo secret >/u/key; chmod 600 /u/key; '
                     'echo low >/u/roots/f; chown 1000:1000 /u')
        session = self.session(workspace={'path': '/u'}, uid=1000, gid=1000)
        session.out('echo mine >mine; mkdir -m 555 sealed')
        self.assertEqual(self.commit(session), (2, 0, 0))
        self.assertEqual(self.box.out('stat -c "%u:%g %a %n" /u/mine /u/sealed'),
                         '1000:1000 644 /u/mine\n1000:1000 555 /u/sealed')
        # Its name may be changed by who owns the directory; the overlay has a copy of it then.
        session.out('mv key stolen')
        answer = session.call('POST', '/commit')
        self.refused(answer, 500, 'RUNTIME_ERROR')
        self.assertIn('/u/stolen', answer.json['message'])
        self.assertEqual(self.box.out('ls -A /u; cat /u/roots/f'), 'mine\nroots\nsealed\nlow')
        session.out('rm stolen')
        self.box.out('chown 0:0 /u')
        session.out('echo late >late')
        self.refused(session.call('POST', '/commit'), 500, 'RUNTIME_ERROR')
        self.assertEqual(self.box.out('ls -A /u'), 'mine\nroots\nsealed')
        self.box.out('rm -r /u')

    def test_links_lead_nowhere(self):
        self.box.out('rm -rf /k /k2 /victim; mkdir -p /k/sub /k/d /victim; echo low >/k/sub/f; '
                     'echo safe >/victim/f')
        session = self.session(workspace={'path': '/k'})
        session.out('echo evil >sub/f; echo evil >d/f; ln -s /victim own; rm -r d; mkdir d; '
                    'echo evil >d/f')
        # The sandbox puts links into the places of what is committed, of a whole way there, and of
        # the workspace itself.
        self.box.out('mv /k/sub /k/was; ln -s /victim /k/sub; rmdir /k/d; ln -s /victim /k/d; '
                     'mv /k /k2; ln -s /victim /k')
        self.commit(session)
        self.assertEqual(self.box.out('cat /victim/f; ls -A /victim'), 'safe\nf')
        self.assertEqual(self.box.out('cd /k2; cat sub/f d/f was/f; readlink own'),
                         'evil\nevil\nlow\n/victim')
        # Its own link becomes a directory: what it has pointed to is not touched.
        session.out('cd /k2; rm own; mkdir own; echo evil >own/f')
        self.commit(session)
        self.assertEqual(self.box.out('cat /victim/f /k2/own/f; readlink /k'), 'safe\nevil\n/victim')
        self.box.out('rm -r /k /k2 /victim')

    def test_mounts_of_the_sandbox_are_not_entered(self):
        box = Box(self.daemon, self.image, volumes=[
            {'name': 'v', 'pvc': {'claimName': 'isolated-commit'}, 'mountPath': '/w/in/vol'}])
        self.addCleanup(lambda: self.daemon.delete(box.id))
        box.out('echo safe >/w/in/vol/f')
        session = Session(box, workspace={'path': '/w'})
        self.assertEqual(session.out('ls -A in/vol; echo evil >in/vol/f; echo ok >a'), '')
        self.refused(session.call('POST', '/commit'), 500, 'RUNTIME_ERROR')
        session.out('rm -r in; echo evil >in')
        self.refused(session.call('POST', '/commit'), 500, 'RUNTIME_ERROR')
        self.assertEqual(box.out('cat /w/in/vol/f /w/a'), 'safe\nok')

    def test_sizes(self):
        """A hole stays one, and a path that is too long is told, not followed."""
        self.box.out('rm -rf /s; mkdir /s')
        session = self.session(workspace={'path': '/s'})
        session.out('dd if=/dev/null of=hole bs=1M seek=1048576 2>/dev/null; echo end >>hole')
        began = time.monotonic()
        self.assertEqual(self.commit(session), (1, 0, 0))
        self.assertLess(time.monotonic() - began, 10 * SLOWNESS)
        self.assertEqual(self.box.out('stat -c %s /s/hole; tail -c 4 /s/hole; '
                                      '[ $(du -k /s/hole | cut -f1) -lt 1000 ] && echo small'),
                         f'{(1 << 40) + 4}\nend\nsmall')
        session.out('d=$(printf %0200d 0); for i in $(seq 40); do mkdir $d; cd $d; done; : >bottom')
        answer = session.call('GET', '/diff')
        self.assertEqual((answer.status, answer.json['truncated']), (200, True))
        self.assertIn('4095', answer.json['reason'])
        answer = session.call('POST', '/commit')
        self.refused(answer, 500, 'RUNTIME_ERROR')
        self.assertIn('4095', answer.json['message'])
        self.assertEqual(self.box.out('echo alive'), 'alive')
        session.delete()
        self.box.out('rm -r /s')


if __name__ == '__main__':
    unittest.main()
