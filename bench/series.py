"""What is said about measured samples: quantiles, and whether a promise was kept. The only place."""
import dataclasses
import json
import math
import random

OURS, AGAINST = 'ours', 'against'


def quantile(samples, share):
    """Nearest rank: a value that was measured. None without samples."""
    if not samples:
        return None
    return sorted(samples)[max(1, math.ceil(share * len(samples))) - 1]


def ratio_between(samples, others):
    """Of the medians, the two between which it is in 95 of 100 such runs: bootstrap, each side by itself."""
    draw = random.Random(1)  # the same report of the same samples
    ratios = sorted(quantile(draw.choices(samples, k=len(samples)), 0.5)
                    / quantile(draw.choices(others, k=len(others)), 0.5) for _ in range(400))
    return ratios[10], ratios[-11]


@dataclasses.dataclass
class Series:
    """One row of the report; `id` is GROUP/NAME. Samples, failures and absences by side."""
    id: str
    what: str
    unit: str
    bounds: list
    host: bool = False
    samples: dict = dataclasses.field(default_factory=dict)
    failures: dict = dataclasses.field(default_factory=dict)
    absent: dict = dataclasses.field(default_factory=dict)

    @property
    def group(self):
        return self.id.split('/', 1)[0]

    @property
    def name(self):
        return self.id.split('/', 1)[1]

    def quantile(self, share, side=OURS):
        return quantile(self.samples.get(side), share)

    def failed(self, side=OURS):
        """Why this row cannot be trusted; '' if it can. One without a sample has failed, too."""
        failures = self.failures.get(side, [])
        if failures:
            return f'{len(failures)} failed, the first: {failures[0]}'
        if side == OURS and not self.samples.get(side) and side not in self.absent:
            return 'no sample'
        return ''


@dataclasses.dataclass
class Comparison:
    """Our median in those of the other set of programs."""
    ratio: float
    low: float
    high: float
    slower: bool  # by more than 3 %, also where the ratio may be kindest


def compare(series):
    """None where one side has no sample, or the other some of 0."""
    ours, others = series.samples.get(OURS), series.samples.get(AGAINST)
    if not ours or not others or min(others) <= 0:
        return None
    low, high = ratio_between(ours, others)
    # More a second is better; of everything else, less.
    slower = high < 1 / 1.03 if series.unit.endswith('/s') else low > 1.03
    return Comparison(quantile(ours, 0.5) / quantile(others, 0.5), low, high, slower)


@dataclasses.dataclass
class Verdict:
    """What became of one bound. `kept` is None where it could not be judged, and `why` says so."""
    series: Series
    bound: str
    measured: str
    kept: bool | None
    must: bool
    why: str = ''


def number(value):
    """Three digits that count; whole from a hundred on."""
    if value is None:
        return 'n/a'
    if abs(value) >= 100 or value == 0:
        return f'{value:.0f}'
    digits = 2 - math.floor(math.log10(abs(value)))
    return f'{value:.{min(max(digits, 0), 4)}f}'


def judge(series, bound, everything):
    """`everything`: id → Series of the run, in which the bound's base is looked for."""
    at_most = 'at_most' in bound
    limit = bound['at_most'] if at_most else bound['at_least']
    base_id = bound.get('over') or bound.get('less')
    share = bound.get('quantile', 0.5)
    text = ('p99 ' if share == 0.99 else '') + ('≤ ' if at_most else '≥ ')
    if bound.get('over'):
        text += f'{limit:g} × `{base_id}`'
    elif bound.get('less'):
        text += f'`{base_id}` + {limit:g} {series.unit}'
    else:
        text += f'{limit:g} {series.unit}'
    verdict = Verdict(series, text, number(series.quantile(share)), None, bound.get('must', False))
    value = series.quantile(share)
    if value is None:
        verdict.why = series.absent.get(OURS) or series.failed() or 'no sample'
        return verdict
    if base_id:
        base = everything.get(base_id)
        floor = base.quantile(share) if base else None
        if floor is None or (bound.get('over') and not floor):
            verdict.why = f'`{base_id}` was not measured'
            return verdict
        measured = value / floor if bound.get('over') else value - floor
        of = f'{number(value)} {series.unit}'
        verdict.measured = (f'{number(measured)} × ({of} of {number(floor)})' if bound.get('over')
                            else f'+ {number(measured)} {series.unit} ({of} of {number(floor)})')
        value = measured
    else:
        verdict.measured += f' {series.unit}'
    verdict.kept = value <= limit if at_most else value >= limit
    if series.failed():
        # What was measured before or after a failure keeps no promise.
        verdict.kept, verdict.why = False, series.failed()
    return verdict


def verdicts(run):
    """All bounds of a run (id → Series), in its order."""
    return [judge(series, bound, run) for series in run.values() for bound in series.bounds]


def read(lines, run):
    """Takes what a program of measurements says, line by line (runner.h), into `run`."""
    for line in lines:
        (what, told), = json.loads(line).items()
        if what == 'declare':
            run[told['id']] = Series(**told)
            continue
        identity, side, value = told
        series = run[identity]
        if what == 'sample':
            series.samples.setdefault(side, []).append(value)
        elif what == 'failure':
            series.failures.setdefault(side, []).append(value)
        else:
            series.absent[side] = value


def exit_status(run):
    """2: something could not be measured; 1: what must hold everywhere does not; 0."""
    if not run or any(series.failed() for series in run.values()):
        return 2
    return int(any(verdict.must and verdict.kept is False for verdict in verdicts(run)))
