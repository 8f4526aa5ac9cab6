"""'atoll image build -f': Dockerfiles, made in sandboxes of the images that they name."""
import os
import subprocess
import unittest

import atoll
from atoll import BUILD, SLOWNESS


class Dockerfile(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_busybox()
        cls.work = cls.daemon.top / 'work'
        cls.context = cls.work / 'context'
        (cls.context / 'src/deep').mkdir(parents=True)
        (cls.context / 'src/a.py').write_text('a')
        (cls.context / 'src/b.py').write_text('b')
        (cls.context / 'src/deep/c.txt').write_text('c')
        (cls.context / 'src/link').symlink_to('a.py')
        (cls.context / 'run.sh').write_text('#!/bin/sh\necho ran\n')
        (cls.context / 'run.sh').chmod(0o755)
        (cls.context / 'secret.txt').write_text('secret')
        (cls.context / 'out').symlink_to('/etc/passwd')
        (cls.context / '.dockerignore').write_text('# not for the image\n*.txt\n!src/deep/c.txt\n')

    def atoll(self, *words, expect=0, **environment):
        done = subprocess.run([BUILD / 'atoll', *words], capture_output=True, text=True,
                              env={**self.daemon.client_env(), 'TMPDIR': str(self.work), **environment},
                              timeout=120 * SLOWNESS, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.said = done.stderr
        return done.stdout if expect == 0 else done.stderr

    def build(self, text, *words, expect=0, **environment):
        (self.work / 'Dockerfile').write_text(text)
        return self.atoll('image', 'build', '-f', self.work / 'Dockerfile', '-t', 'made', *words, self.context, expect=expect,
                          **environment)

    def sh(self, script):
        return self.atoll('run', '--entrypoint', 'sh', 'made', '-c', script)

    def test_words_of_a_config(self):
        self.build('''# escape=`
ARG BASE=busybox
FROM ${BASE}
ARG VERSION=1 UNSET
ENV COLOUR="light blue" `
    # a comment between
    SIZE=${VERSION:-none}${UNSET:+set}
ENV OLD=$COLOUR!
LABEL org.example.of="$SIZE" plain=x
EXPOSE 80 8000-8001/udp
VOLUME ["/data", "/more"]
STOPSIGNAL SIGINT
SHELL ["/bin/sh", "-e", "-c"]
WORKDIR /srv
WORKDIR $OLD/deep
USER 1000:1000
ENTRYPOINT ["echo", "from"]
CMD echo $COLOUR
''', '--build-arg', 'VERSION=7')
        image = self.daemon.request('GET', '/v1/images/made')
        env = dict(one.split('=', 1) for one in image['env'])
        self.assertEqual((env['COLOUR'], env['SIZE'], env['OLD']), ('light blue', '7', 'light blue!'))
        self.assertNotIn('VERSION', env)
        self.assertEqual(image['labels'], {'org.example.of': '7', 'plain': 'x'})
        self.assertEqual(image['exposedPorts'], ['80/tcp', '8000/udp', '8001/udp'])
        self.assertEqual((image['volumes'], image['stopSignal']), (['/data', '/more'], 'SIGINT'))
        self.assertEqual((image['workingDir'], image['user']), ('/srv/light blue!/deep', '1000:1000'))
        self.assertEqual((image['entrypoint'], image['cmd']), (['echo', 'from'], ['/bin/sh', '-e', '-c', 'echo $COLOUR']))
        self.assertEqual(self.atoll('run', 'made'), 'from /bin/sh -e -c echo $COLOUR\n')
        # All of it is what other tools see, too, and comes back.
        archive = self.work / 'made.tar'
        self.atoll('image', 'export', 'made', archive)
        self.atoll('image', 'import', archive, '--name', 'again')
        again = self.daemon.request('GET', '/v1/images/again')
        for key in ('env', 'labels', 'exposedPorts', 'volumes', 'stopSignal', 'workingDir', 'user', 'shell', 'cmd'):
            self.assertEqual(again.get(key), image.get(key), key)

    def test_run(self):
        self.build('''FROM busybox
ARG WHO=me
ENV MODE=batch
RUN echo $WHO $MODE $(id -u) $(pwd) >/shell && cat /proc/1/comm >>/shell
RUN ["/bin/sh", "-c", "echo $0 exec >/exec", "form"]
WORKDIR /srv
RUN echo dev:x:1000:1000::/home/dev:/bin/sh >>/etc/passwd && \\
    pwd >>/shell
USER dev
RUN id -un >/tmp/user; echo $HOME >>/tmp/user; touch /srv/no 2>/dev/null || echo denied >>/tmp/user
USER root
RUN <<END
set -e
echo one >/heredoc
echo "$MODE" >>/heredoc
END
RUN cat <<'END' >>/heredoc && echo more >>/heredoc
$MODE as it is
END
RUN <<END
#!/bin/cat
shebang $MODE
END
''')
        self.assertIn('shebang $MODE\n', self.said)
        self.assertEqual(self.sh('cat /shell /exec /tmp/user /heredoc'),
                         'me batch 0 /\nexecd\n/srv\nform exec\ndev\n/home/dev\ndenied\none\nbatch\n$MODE as it is\nmore\n')

    def test_copy(self):
        self.build('''FROM busybox
RUN echo dev:x:1000:1000::/home/dev:/bin/sh >>/etc/passwd && echo dev:x:1000: >>/etc/group && mkdir /there && ln -s /there /away
COPY src /all
COPY src/*.py src/deep /some/
COPY --chown=dev:dev --chmod=640 src/a.py /owned
COPY src/a.py /there
COPY run.sh /away/
COPY src/link /followed
COPY --chown=7 src/deep/c.txt run.sh ./relative/
ADD src/b.py /added
COPY <<END <<"RAW" /texts/
path $PATH
END
path $PATH
RAW
''')
        self.assertEqual(self.sh('cd /all && find . | sort'), '.\n./a.py\n./b.py\n./deep\n./deep/c.txt\n./link\n')
        self.assertEqual(self.sh('cd /some && find . | sort'), '.\n./a.py\n./b.py\n./c.txt\n')
        self.assertEqual(self.sh('stat -c "%U %G %a" /owned; stat -c "%u %a" /there/run.sh /all/a.py /relative/c.txt; '
                                 'readlink /all/link; cat /followed /there/a.py /added'),
                         'dev dev 640\n0 755\n0 644\n7 644\na.py\naab')
        self.assertEqual(self.sh('cat /texts/RAW; grep -c PATH /texts/END; ls /texts').splitlines(),
                         ['path $PATH', '0', 'END', 'RAW'])

    def test_stages(self):
        (self.work / 'Dockerfile').write_text('''FROM busybox AS build
RUN mkdir -p /out/bin && echo binary >/out/bin/tool && chmod 755 /out/bin/tool && chown 5:6 /out/bin/tool
RUN echo x >/out/one.o && echo y >/out/two.o
FROM busybox AS unneeded
RUN false
FROM build AS test
RUN grep binary /out/bin/tool
FROM scratch
COPY --from=build /out/bin/tool /tool
COPY --from=build /out /tree/
COPY --from=0 --chown=9:9 /out/*.o /objects/
COPY --from=busybox /bin/busybox /bin/sh
ENTRYPOINT ["/bin/sh", "-c"]
''')
        self.atoll('image', 'build', '-f', self.work / 'Dockerfile', '-t', 'made', self.context)
        self.assertNotIn('false', self.said)
        self.assertEqual(self.atoll('run', 'made', 'cd /; echo /*; echo /tree/* /objects/*; read line <tool; echo $line'),
                         '/bin /dev /etc /objects /opt /proc /sys /tmp /tool /tree\n/tree/bin /tree/one.o /tree/two.o '
                         '/objects/one.o /objects/two.o\nbinary\n')
        box = self.daemon.create('made', entrypoint=['/bin/sh', '-c', 'while :; do read x; done'])
        self.addCleanup(self.daemon.delete, box)
        headers = self.daemon.execd_headers(box)
        for path, owner, mode in (('/tree/bin/tool', '5', 755), ('/tool', '5', 755), ('/objects/one.o', '9', 644)):
            told = self.daemon.request('GET', f'/sandboxes/{box}/proxy/44772/files/info?path={path}', headers=headers)
            self.assertEqual((told[path]['owner'], told[path]['mode']), (owner, mode), path)
        self.atoll('image', 'build', '-f', self.work / 'Dockerfile', '-t', 'tested', '--target', 'test', self.context)
        self.assertEqual(self.atoll('run', 'tested', 'cat', '/out/bin/tool'), 'binary\n')
        self.assertIn("no stage is called 'nothing'", self.atoll('image', 'build', '-f', self.work / 'Dockerfile',
                                                                 '--target', 'nothing', self.context, expect=1))

    def test_what_is_kept(self):
        """By content: a step is done again when what it stands on, or what it copies, is another one."""
        text = 'FROM busybox\n' + ''.join(f'RUN echo {n} >/step{n}\n' for n in range(8)) + \
               'COPY run.sh /run.sh\nRUN cat /proc/sys/kernel/random/uuid >/uuid\nENV A=1\nCMD ["cat", "/uuid"]\n'
        self.build(text)
        first = self.atoll('run', 'made')
        self.build(text)
        self.assertEqual(self.said.count('(kept)'), 10)
        self.assertEqual(self.atoll('run', 'made'), first)
        # No time counts, only what is in it.
        os.utime(self.context / 'run.sh', (1, 1))
        self.build(text)
        self.assertEqual(self.said.count('(kept)'), 10)
        (self.context / 'run.sh').write_text('#!/bin/sh\necho other\n')
        try:
            self.build(text)
            self.assertEqual(self.said.count('(kept)'), 8)
            second = self.atoll('run', 'made')
            self.assertNotEqual(second, first)
        finally:
            (self.context / 'run.sh').write_text('#!/bin/sh\necho ran\n')
        self.build(text, '--no-cache')
        self.assertNotIn('(kept)', self.said)
        self.assertNotIn(self.atoll('run', 'made'), (first, second))

    def test_a_step_that_fails(self):
        said = self.build('FROM busybox\n\nRUN echo fine && \\\n  sh -c "exit 3"\n', expect=1)
        self.assertIn(f'{self.work}/Dockerfile:3: RUN: exit status 3', said)
        steps = self.daemon.request('GET', '/v1/sandboxes?metadata=atoll.build%3Dstep')['items']
        self.assertEqual(steps, [], 'no sandbox of a step is left')

    def test_networks(self):
        probe = 'ls /sys/class/net; wget -q -T 2 -O - http://192.0.2.1/ || echo no way out'
        self.build(f'FROM busybox\nRUN --network=none {{ {probe}; }} >/seen 2>/dev/null\n')
        self.assertIn('no way out', self.sh('cat /seen'))
        self.assertIn('there are default and none', self.build('FROM busybox\nRUN --network=host true\n', expect=1))

    def test_certificates_are_in_no_image(self):
        authority = self.work / 'corp.pem'
        authority.write_text('-----BEGIN CERTIFICATE-----\ncorp\n-----END CERTIFICATE-----\n')
        (self.work / 'build.toml').write_text(f'certificates = ["{authority}"]\n[env]\nPIP_INDEX_URL = "https://mirror/"\n')
        self.build('FROM busybox\nRUN grep -c ^corp $SSL_CERT_FILE >/seen; echo $PIP_INDEX_URL >>/seen\n',
                   ATOLL_BUILD_SETTINGS=str(self.work / 'build.toml'))
        self.assertEqual(self.sh('cat /seen; ls -A /dev/shm; env | grep -c -e CERT -e PIP; true'), '1\nhttps://mirror/\n0\n')

    def test_refusals(self):
        """With the file and the line; nothing is made."""
        for text, line, why in (
                ('FROM busybox\nRUNN true\n', 2, "'RUNN' is no instruction"),
                ('FROM busybox\nHEALTHCHECK CMD true\n', 2, 'nothing here asks for the health'),
                ('FROM busybox\nRUN --mount=type=cache,target=/x true\n', 2, 'RUN --mount: not here'),
                ('\n\nFROM absent:1\n', 3, "image 'absent:1' is not imported"),
                ('FROM busybox\nADD https://example.org/x /x\n', 2, 'is not of the context'),
                ('FROM busybox\nADD x.tar.gz /x\n', 2, 'unpacks no archive'),
                ('FROM busybox\nCOPY absent /x\n', 2, 'the context has nothing of that name'),
                ('FROM busybox\nCOPY secret.txt /x\n', 2, '.dockerignore leaves it out'),
                ('FROM busybox\nCOPY ../Dockerfile /x\n', 2, 'leads out of the context'),
                ('FROM busybox\nCOPY out /x\n', 2, 'a link leads out of the context'),
                ('FROM busybox\nCOPY run.sh src /x\n', 2, 'must end with /'),
                ('FROM busybox\nCOPY --chown=nobodyhere run.sh /x\n', 2, "the image has no user 'nobodyhere'"),
                ('FROM busybox\nUSER nobodyhere\nRUN true\n', 3, "the image has no user 'nobodyhere'"),
                ('FROM busybox\nCOPY --from=absent /x /y\n', 2, "image 'absent:latest' is not imported"),
                ('FROM --platform=linux/s390x busybox\n', 1, 'this machine builds for')):
            with self.subTest(text):
                self.assertIn(f'{self.work}/Dockerfile:{line}: ', self.build(text, '--name', 'refused', expect=1))
                self.assertIn(why, self.said)
        self.assertNotIn('refused:latest', [image['name'] for image in self.daemon.request('GET', '/v1/images')['items']])

    def test_links_and_special_files_of_a_context(self):
        """No link is followed out of it, wherever it lies; what is no file is left out."""
        hostile = self.work / 'hostile'
        (hostile / 'tree').mkdir(parents=True)
        (hostile / 'tree/passwd').symlink_to('/etc/passwd')
        (hostile / 'tree/up').symlink_to('../../..')
        os.mkfifo(hostile / 'tree/fifo')
        (hostile / 'tree/file').write_text('x')
        (hostile / 'Dockerfile').write_text('FROM busybox\nCOPY tree /tree\n')
        self.atoll('image', 'build', '-t', 'made', f'{hostile}/')
        self.assertEqual(self.sh('cd /tree; ls; readlink passwd; readlink up'), 'file\npasswd\nup\n/etc/passwd\n../../..\n')
        (hostile / 'Dockerfile').write_text('FROM busybox\nCOPY tree/up/work /x\n')
        self.assertIn('out of the context', self.atoll('image', 'build', f'{hostile}/', expect=1))


if __name__ == '__main__':
    unittest.main()
