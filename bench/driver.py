"""What a driver in Python has in common with the others: its table of rows, and how it says what it
measured (the lines of runner.h)."""
import argparse
import json
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tests/e2e'))

import series as numbers  # pylint: disable=wrong-import-position


def row(name, what, unit, *bounds):
    """One row of a driver's table; bounds as in phase.h: {'at_most': 3, 'over': 'GROUP/ROW'}."""
    return {'name': name, 'what': what, 'unit': unit, 'bounds': list(bounds)}


class Take:
    """Where a driver leaves its samples. Rows that were not chosen are not measured. `rows`: the table,
    for so many samples of each, 0 for as many as usual."""

    def __init__(self, group, rows):
        parser = argparse.ArgumentParser()
        parser.add_argument('--only', default='')
        parser.add_argument('--samples', type=int, default=0)
        chosen = parser.parse_args()
        self.group, self.only, self.samples = group, chosen.only, chosen.samples
        self.rows = [one for one in rows(chosen.samples) if one['name'].startswith(chosen.only)]
        for one in self.rows:
            told = {key: value for key, value in one.items() if key != 'name'}
            self._say('declare', {'id': f'{group}/{one["name"]}', **told})

    @staticmethod
    def _say(what, told):
        print(json.dumps({what: told}), flush=True)

    def wants(self, *names):
        return any(one['name'] in names for one in self.rows)

    def add(self, name, *values):
        for value in values if self.wants(name) else ():
            self._say('sample', [f'{self.group}/{name}', numbers.OURS, value])

    def fail(self, name, error):
        if self.wants(name):
            self._say('failure', [f'{self.group}/{name}', numbers.OURS, f'{error}'])

    def run(self, body):
        """Whatever stops `body` is a failure of every row."""
        try:
            body(self)
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            for one in self.rows:
                self.fail(one['name'], f'{type(error).__name__}: {error}')
