"""Makes a root file system from Debian's static busybox. Needs no privilege and takes a second."""
import os
import pathlib
import shutil
import subprocess
import sys

from programs import need

# Links are made in both directories: --list-full lists env and a few others only in /usr/bin, and sh only
# in /bin, but scripts expect both.
DIRECTORIES = {'bin': 0o755, 'dev': 0o755, 'etc': 0o755, 'home': 0o755, 'proc': 0o755,
               'root': 0o700, 'run': 0o755, 'sbin': 0o755, 'sys': 0o755, 'tmp': 0o1777,
               'usr/bin': 0o755, 'usr/sbin': 0o755, 'var/tmp': 0o1777}
PASSWD = 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n'
GROUP = 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n'


def make_root(root):
    """Fills the directory `root`, a pathlib.Path."""
    busybox = os.environ.get('ATOLL_BUSYBOX', '/bin/busybox')
    if not os.path.exists(busybox):
        need('busybox')
    if subprocess.run(['ldd', busybox], capture_output=True, check=False).returncode == 0:
        sys.exit(f'{busybox} is not static; install one with: apt-get install busybox-static')
    for name, mode in DIRECTORIES.items():
        (root / name).mkdir(parents=True)
        (root / name).chmod(mode)
    for parent in (root, root / 'usr', root / 'var'):
        parent.chmod(0o755)
    shutil.copy(busybox, root / 'bin/busybox')
    listed = subprocess.run([busybox, '--list-full'], check=True, capture_output=True, text=True)
    for applet in map(pathlib.Path, listed.stdout.split()):
        if str(applet) != 'linuxrc' and not os.path.lexists(root / applet):
            (root / applet).symlink_to('/bin/busybox')
    (root / 'etc/passwd').write_text(PASSWD, encoding='ascii')
    (root / 'etc/group').write_text(GROUP, encoding='ascii')
