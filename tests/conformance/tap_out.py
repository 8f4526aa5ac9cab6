"""TAP for programs that learn their cases only as they run."""


class Tap:
    """One line a case, the plan at the end."""

    def __init__(self):
        self.count, self.failed = 0, 0

    def line(self, passed, name, note=''):
        self.count += 1
        self.failed += not passed
        print(f'{"ok" if passed else "not ok"} {self.count} - {name}{note}', flush=True)

    @staticmethod
    def note(text):
        print(f'# {text}', flush=True)

    def end(self):
        print(f'1..{self.count}', flush=True)
        return 1 if self.failed or not self.count else 0
