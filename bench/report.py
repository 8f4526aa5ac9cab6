"""The report of a run: promises, tables by group, failures; on the terminal and in bench/README.md."""
import json
import re

import series as numbers

FAILED, MISSED, KEPT = '**failed**', '**missed**', 'kept'


def row(cells):
    return '| ' + ' | '.join(str(cell).replace('|', '\\|').replace('\n', ' ') for cell in cells) + ' |'


def table(head, rows):
    """Markdown; the first column is text."""
    return '\n'.join([row(head), '|---|' + '---:|' * (len(head) - 1), *map(row, rows)]) + '\n'


def machine_line(machine):
    return (f"{machine['processors']} × {machine['processor']}; Linux {machine['kernel']}; cgroup "
            f"{machine['cgroup']}; {machine['file_system']}; a CPUID takes {machine['cpuid_us']:.2g} µs; "
            f"load before: {machine['load']}; {machine['date']}")


def verdict_cell(verdict):
    if verdict.series.failed():
        return FAILED
    if verdict.kept is None:
        return f'not judged: {verdict.why}'
    return KEPT if verdict.kept else MISSED


def promises(run):
    return table(['promise', 'bound', 'measured', ''],
                 [(f'`{verdict.series.id}`', verdict.bound, verdict.measured, verdict_cell(verdict))
                  for verdict in numbers.verdicts(run)])


def compared(series):
    """Cells of the other set of programs: its median, and ours in its units."""
    if series.host:
        return ['', '']
    other = series.quantile(0.5, numbers.AGAINST)
    if other is None:
        return ['n/a', '']
    compared_to = numbers.compare(series)
    return [numbers.number(other),
            f'{compared_to.ratio:.2f} ({compared_to.low:.2f} to {compared_to.high:.2f})' if compared_to else '']


def slower(run):
    """A line for the end of a comparison."""
    names = [series.id for series in run.values()
             if not series.host and (found := numbers.compare(series)) and found.slower]
    return 'Slower than the other by more than 3 %, surely: ' + (', '.join(names) or 'nothing') + '.'


def group_table(rows, against):
    head = ['', 'unit', 'p50', 'p95', 'p99', 'n', 'one sample']
    if against:
        head[6:6] = ['p50 of the other', 'ours ÷ other']
    cells = []
    for series in rows:
        line = [series.name, series.unit]
        if numbers.OURS in series.absent:
            line += ['absent', '', '', '']
        elif series.failed():
            line += [FAILED, '', '', len(series.samples.get(numbers.OURS, []))]
        else:
            line += [numbers.number(series.quantile(share)) for share in (0.5, 0.95, 0.99)]
            line.append(len(series.samples[numbers.OURS]))
        if against:
            line += compared(series)
        line.append(series.absent.get(numbers.OURS) or series.what)
        cells.append(line)
    text = table(head, cells)
    # The text column is last, and to the left.
    return text.replace('---:|\n', '---|\n', 1)


def groups(run):
    found = {}
    for series in run.values():
        found.setdefault(series.group, []).append(series)
    return found


def troubles(run):
    """A line for each row that failed, on either side, for the end of the terminal's report."""
    lines = []
    for series in run.values():
        if series.failed():
            lines.append(f'failed: {series.id}: {series.failed()}')
        if series.failed(numbers.AGAINST):
            lines.append(f'n/a of the other: {series.id}: {series.failed(numbers.AGAINST)}')
    return lines


def text_of(machine, run, against=None):
    parts = [machine_line(machine), '']
    if against:
        parts += [f'The other: {against}', '']
    for name, rows in groups(run).items():
        parts += [f'## {name}', '', group_table(rows, against)]
    if against:
        parts += [slower(run), '']
    parts += ['## promises', '', promises(run)]
    return '\n'.join(parts)


def write_readme(path, machine, run):
    """Between the marks of each group that was measured, and of the promises: only a run of
    everything rewrites those, because most are ratios of one run."""
    tables = {name: machine_line(machine) + '\n\n' + group_table(rows, None)
              for name, rows in groups(run).items()}
    tables['promises'] = promises(run)
    text = path.read_text(encoding='utf-8')
    known = re.findall(r'^<!-- (\S+): begin -->$', text, re.M)
    if missing := [name for name in tables if name not in known]:
        raise SystemExit(f'bench: {path} has no place for {", ".join(missing)}')
    for name, content in tables.items():
        if name == 'promises' and set(groups(run)) != set(known) - {'promises'}:
            continue
        begin, end = f'<!-- {name}: begin -->\n', f'<!-- {name}: end -->'
        before, _, rest = text.partition(begin)
        text = before + begin + content + end + rest.partition(end)[2]
    path.write_text(text, encoding='utf-8')


def dump(path, machine, run, against=None):
    data = {'machine': machine, 'against': against, 'series': [vars(series) for series in run.values()]}
    path.write_text(json.dumps(data, indent=1), encoding='utf-8')


def load(path):
    data = json.loads(path.read_text(encoding='utf-8'))
    return data['machine'], {one['id']: numbers.Series(**one) for one in data['series']}, data['against']
