"""The programs, read from programs/*.toml, and what was seen of them when they last ran."""
import dataclasses
import json
import os
import pathlib
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE / 'images'
BUILD = pathlib.Path(os.environ.get('ATOLL_BUILD', HERE.parent.parent / 'build'))
RESULTS = BUILD / 'workloads'
# In the order of the table.
TITLES = {'databases': 'Databases and brokers', 'web': 'The web', 'compilers': 'Languages and builds',
          'packages': 'Packages and archives', 'debuggers': 'Debuggers',
          'notebooks': 'Notebooks', 'media': 'Browsers, media, office', 'remote': 'Remote and daily work',
          'refused': 'Refused'}


@dataclasses.dataclass
class Program:
    """A row; tests/workloads/README.md tells what each field is."""
    name: str
    image: str
    does: str
    script: str
    prints: str
    serve: str = ''
    fetches: dict = dataclasses.field(default_factory=dict)
    limits: dict = dataclasses.field(default_factory=dict)
    seconds: int = 120
    refused: str = ''

    @property
    def key(self):
        """Of its test and of the file of its result."""
        return '_'.join(''.join(c if c.isalnum() else ' ' for c in self.name.lower()).split())

    def record(self, passed):
        """What table.py says of it next; of a row that has been changed since it says nothing."""
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps({'program': dataclasses.asdict(self), 'passed': passed}, indent=1)
        (RESULTS / f'{self.key}.json').write_text(text, encoding='utf-8')

    def passed(self):
        """None where it has not run as it is."""
        path = RESULTS / f'{self.key}.json'
        told = json.loads(path.read_text(encoding='utf-8')) if path.exists() else {}
        return told['passed'] if told.get('program') == dataclasses.asdict(self) else None


def load():
    """Title → programs. A key that a Program does not have, or lacks, is an error."""
    found = {}
    for stem, title in TITLES.items():
        rows = tomllib.loads((HERE / f'programs/{stem}.toml').read_text(encoding='utf-8'))['program']
        found[title] = [Program(**row) for row in rows]
    return found
