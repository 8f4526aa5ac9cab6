"""What the checks share: the files of the tree, and their verdicts as TAP."""
import fnmatch
import os
import pathlib
import subprocess
import sys

CODE = ('*.h', '*.cc')


def root_from(argv):
    """The tree to look at: the first argument, or the one that these scripts are in."""
    return pathlib.Path(argv[1] if len(argv) > 1 else __file__ + '/../../..').resolve()


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def files(root, *patterns):
    """Paths of the project's own files, relative to `root`, sorted: what git tracks or would track;
    in a tree without git (an unpacked release) everything but build folders. A link is no file:
    it may lead to what an image has there, and is the host's here."""
    # The owner of the checkout may be somebody else; we only list names.
    listing = subprocess.run(
        ['git', '-c', 'safe.directory=*', '-C', root, 'ls-files', '-z', '--cached', '--others',
         '--exclude-standard'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if listing.returncode == 0 and (root / '.git').exists():
        names = [name for name in listing.stdout.decode().split('\0') if name]
    else:
        names = []
        for folder, below, here in os.walk(root):
            below[:] = [name for name in below if not name.startswith(('build', '.'))]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in here]
    return sorted(name for name in set(names)
                  if (root / name).is_file() and not (root / name).is_symlink()
                  and (not patterns or matches(name, patterns)))


def report(cases):
    """Prints {name: [complaint...]} as TAP; the exit status."""
    print(f'1..{len(cases)}')
    for number, (name, complaints) in enumerate(cases.items(), 1):
        print(f'{"not ok" if complaints else "ok"} {number} - {name}', flush=True)
        for complaint in complaints:
            # meson shows a failed test's stderr, not its TAP.
            print(f'  {complaint}', file=sys.stderr)
    return 1 if any(cases.values()) else 0
