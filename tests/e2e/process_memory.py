"""What the memory of a process holds, as somebody sees it who reads it from outside."""
import pathlib

from atoll import SLOWNESS, until


def found_in(pid, texts):
    """Those of the texts that the process has in memory; none if it has ended."""
    found = set()
    try:
        with open(f'/proc/{pid}/mem', 'rb') as memory:
            for line in pathlib.Path(f'/proc/{pid}/maps').read_text(encoding='ascii').splitlines():
                area, rights = line.split()[:2]
                if not rights.startswith('rw'):
                    continue
                begin, end = (int(number, 16) for number in area.split('-'))
                try:
                    memory.seek(begin)
                    held = memory.read(end - begin)
                except OSError:  # unmapped meanwhile
                    continue
                found.update(text for text in texts if text.encode() in held)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def await_wiped(processes, texts):
    """Until none of the processes (name → pid) has one of the texts."""
    left = {}

    def wiped():
        left.clear()
        left.update((name, found) for name, pid in processes.items()
                    if (found := found_in(pid, texts)))
        return not left
    until(wiped, 10 * SLOWNESS, left)
