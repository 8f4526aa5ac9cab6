"""Statistics, verdicts and tables of bench/, and that its launcher sees what is broken."""
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[3] / 'bench'
sys.path.insert(0, str(BENCH))

import report  # pylint: disable=wrong-import-position
import series as numbers  # pylint: disable=wrong-import-position

MACHINE = {'processors': 2, 'processor': 'X', 'kernel': '6.1', 'cgroup': 'v2', 'file_system': 'ext4',
           'load': '0 0 0', 'cpuid_us': 8.123, 'date': '2026-01-01'}


def declared(identity, *bounds, unit='ms', host=False):
    return json.dumps({'declare': {'id': identity, 'what': 'from → to', 'unit': unit, 'host': host,
                                   'bounds': list(bounds)}})


def sampled(identity, *values, side='ours'):
    return [json.dumps({'sample': [identity, side, value]}) for value in values]


def failed(identity, message, side='ours'):
    return json.dumps({'failure': [identity, side, message]})


def run_of(*lines):
    run = {}
    numbers.read([line for one in lines for line in ([one] if isinstance(one, str) else one)], run)
    return run


def launcher():
    loader = importlib.machinery.SourceFileLoader('launcher', str(BENCH / 'bench'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('launcher', loader))
    loader.exec_module(module)
    return module


class Statistics(unittest.TestCase):
    def test_a_quantile_is_a_value_that_was_measured(self):
        samples = list(range(100, 0, -1))
        self.assertEqual([numbers.quantile(samples, share) for share in (0, 0.5, 0.95, 0.99, 1)],
                         [1, 50, 95, 99, 100])
        self.assertEqual(numbers.quantile([3, 1, 2], 0.5), 2)
        self.assertEqual(numbers.quantile([7], 0.99), 7)
        self.assertIsNone(numbers.quantile([], 0.5))

    def test_numbers_have_three_digits_that_count(self):
        self.assertEqual([numbers.number(value) for value in (1.2345, 12.345, 0.12345, 12345.6, 0, 0.00012)],
                         ['1.23', '12.3', '0.123', '12346', '0', '0.0001'])


class Verdicts(unittest.TestCase):
    def judged(self, bound, samples, base=()):
        run = run_of(declared('a/x', bound), declared('a/floor'), sampled('a/x', *samples),
                     sampled('a/floor', *base))
        return numbers.verdicts(run)[0]

    def test_absolute_bounds(self):
        self.assertTrue(self.judged({'at_most': 3}, [1, 3, 9]).kept)
        self.assertFalse(self.judged({'at_most': 3}, [1, 3.01, 9]).kept)
        self.assertTrue(self.judged({'at_least': 3}, [3]).kept)
        self.assertFalse(self.judged({'at_least': 3}, [2.9]).kept)

    def test_ratios_and_differences_to_a_row_of_the_same_run(self):
        self.assertTrue(self.judged({'at_most': 1.5, 'over': 'a/floor'}, [3], [2]).kept)
        self.assertFalse(self.judged({'at_most': 1.4, 'over': 'a/floor'}, [3], [2]).kept)
        self.assertTrue(self.judged({'at_most': 1, 'less': 'a/floor'}, [3], [2]).kept)
        self.assertFalse(self.judged({'at_most': 0.9, 'less': 'a/floor'}, [3], [2]).kept)
        self.assertTrue(self.judged({'at_most': 0, 'less': 'a/floor'}, [0], [0]).kept)

    def test_another_quantile_is_compared_with_the_same_of_the_base(self):
        bound = {'at_most': 3, 'over': 'a/floor', 'quantile': 0.99}
        self.assertTrue(self.judged(bound, [1, 9], [1, 3]).kept)
        self.assertFalse(self.judged(bound, [1, 10], [1, 3]).kept)

    def test_a_bound_without_its_base_is_not_judged(self):
        verdict = self.judged({'at_most': 1.5, 'over': 'a/floor'}, [3])
        self.assertIsNone(verdict.kept)
        self.assertIn('a/floor', verdict.why)
        self.assertIn('not judged', report.promises(run_of(
            declared('a/x', {'at_most': 1, 'over': 'a/gone'}), sampled('a/x', 1))))

    def test_a_row_with_a_failure_keeps_nothing(self):
        run = run_of(declared('a/x', {'at_most': 3}), sampled('a/x', 1, 1), failed('a/x', 'no answer'))
        self.assertFalse(numbers.verdicts(run)[0].kept)
        self.assertIn(report.FAILED, report.promises(run))


class ExitStatus(unittest.TestCase):
    def test_kept(self):
        self.assertEqual(numbers.exit_status(run_of(declared('a/x', {'at_most': 3}), sampled('a/x', 1))), 0)

    def test_a_missed_promise_is_printed_and_one_that_must_hold_ends_with_1(self):
        for must, status in ((False, 0), (True, 1)):
            run = run_of(declared('a/x', {'at_most': 3, 'must': must}), sampled('a/x', 4))
            self.assertEqual(numbers.exit_status(run), status)
            self.assertIn(report.MISSED, report.promises(run))

    def test_failures_and_rows_without_samples_end_with_2(self):
        self.assertEqual(numbers.exit_status(run_of(declared('a/x'), sampled('a/x', 1), failed('a/x', 'e'))), 2)
        self.assertEqual(numbers.exit_status(run_of(declared('a/x'))), 2)
        self.assertEqual(numbers.exit_status({}), 2)

    def test_what_the_other_programs_cannot_do_is_no_failure(self):
        run = run_of(declared('a/x'), sampled('a/x', 1), failed('a/x', 'no route', side='against'))
        self.assertEqual(numbers.exit_status(run), 0)
        self.assertIn('| n/a |', report.group_table(run.values(), 'DIR'))

    def test_absent_is_no_failure_and_named(self):
        run = run_of(declared('a/crun'), json.dumps({'absent': ['a/crun', 'ours', 'not installed']}))
        self.assertEqual(numbers.exit_status(run), 0)
        self.assertIn('| absent | | | | not installed |',
                      re.sub(' +', ' ', report.group_table(run.values(), None)))


class Comparisons(unittest.TestCase):
    def slower(self, unit, ours, others):
        run = run_of(declared('a/x', unit=unit), sampled('a/x', *ours), sampled('a/x', *others, side='against'))
        return 'surely: a/x.' in report.slower(run)

    def test_slower_is_what_stays_so_at_its_kindest(self):
        even = [100 + i % 3 for i in range(200)]
        self.assertTrue(self.slower('ms', [value * 1.1 for value in even], even))
        self.assertFalse(self.slower('ms', [value * 1.02 for value in even], even))
        self.assertFalse(self.slower('ms', even, [value * 1.1 for value in even]))

    def test_a_difference_within_what_both_scatter_is_none(self):
        wide = [1 + i * 7 % 10 for i in range(100)]
        self.assertFalse(self.slower('ms', [value * 1.1 for value in wide], wide))

    def test_more_a_second_is_faster(self):
        even = [100 + i % 3 for i in range(200)]
        self.assertFalse(self.slower('1/s', [value * 1.1 for value in even], even))
        self.assertTrue(self.slower('MiB/s', [value * 0.9 for value in even], even))


class Tables(unittest.TestCase):
    def test_a_group(self):
        run = run_of(declared('a/x'), sampled('a/x', *range(1, 101)),
                     sampled('a/x', 25, side='against'), declared('a/floor', host=True),
                     sampled('a/floor', 2))
        self.assertEqual(report.group_table(run.values(), 'DIR').splitlines()[2:], [
            '| x | ms | 50.0 | 95.0 | 99.0 | 100 | 25.0 | 2.00 (1.60 to 2.40) | from → to |',
            '| floor | ms | 2.00 | 2.00 | 2.00 | 1 |  |  | from → to |'])
        self.assertNotIn('25.0', report.group_table(run.values(), None))

    def test_what_a_machine_says_cannot_break_the_table(self):
        self.assertEqual(report.row(['a|b', 'c\nd']), '| a\\|b | c d |')

    def test_dumped_and_loaded_it_is_the_same_report(self):
        run = run_of(declared('a/x', {'at_most': 3}), sampled('a/x', 1, 2), failed('a/x', 'e'))
        with tempfile.TemporaryDirectory() as top:
            file = pathlib.Path(top, 'run.json')
            report.dump(file, MACHINE, run)
            machine, again, against = report.load(file)
        self.assertEqual(report.text_of(machine, again, against), report.text_of(MACHINE, run))

    def test_the_readme_is_written_between_its_marks(self):
        def marks(name, text):
            return f'<!-- {name}: begin -->\n{text}<!-- {name}: end -->\n'
        run = run_of(declared('a/x', {'at_most': 3}), sampled('a/x', 1))
        both = run_of(declared('a/x', {'at_most': 3}), sampled('a/x', 1), declared('b/y'), sampled('b/y', 1))
        with tempfile.TemporaryDirectory() as top:
            readme = pathlib.Path(top, 'README.md')
            text = 'before\n' + marks('promises', 'old\n') + marks('a', 'old\n') + marks('b', 'old\n') + 'after\n'
            readme.write_text(text, encoding='utf-8')
            report.write_readme(readme, MACHINE, run)
            found = readme.read_text(encoding='utf-8')
            # Most promises are ratios of one run, so a part of it leaves them alone.
            self.assertIn(marks('promises', 'old\n'), found)
            self.assertIn(marks('b', 'old\n'), found)
            self.assertIn('| x | ms | 1.00 |', found)
            self.assertTrue(found.startswith('before\n') and found.endswith('after\n'))
            report.write_readme(readme, MACHINE, both)
            self.assertIn('| `a/x` | ≤ 3 ms | 1.00 ms | kept |', readme.read_text(encoding='utf-8'))
            readme.write_text(marks('promises', ''), encoding='utf-8')
            with self.assertRaises(SystemExit):
                report.write_readme(readme, MACHINE, run)


class Launcher(unittest.TestCase):
    def setUp(self):
        self.launcher = launcher()

    def measured(self, script):
        run = run_of(declared('b/y'), sampled('b/y', 1))
        self.launcher.command_of = lambda group, chosen: [sys.executable, '-c', script]
        self.launcher.measure('a', types.SimpleNamespace(), run)
        return run

    def test_reads_what_a_program_says(self):
        said = '\n'.join([declared('a/x'), *sampled('a/x', 1)])
        self.assertEqual(numbers.exit_status(self.measured(f'print({said!r})')), 0)

    def test_a_program_that_dies_half_way_is_a_failure(self):
        said = '\n'.join([declared('a/x'), *sampled('a/x', 1)])
        run = self.measured(f'print({said!r})\nraise SystemExit(3)')
        self.assertEqual(numbers.exit_status(run), 2)
        self.assertIn('ended with 3', '\n'.join(report.troubles(run)))

    def test_a_group_without_the_chosen_row_is_a_failure(self):
        self.assertEqual(numbers.exit_status(self.measured('')), 2)

    def test_the_readme_has_a_place_for_every_group(self):
        known = re.findall(r'^<!-- (\S+): begin -->$', (BENCH / 'README.md').read_text(encoding='utf-8'), re.M)
        groups = self.launcher.NATIVE + self.launcher.DRIVERS
        self.assertEqual(sorted(known), sorted(groups + ['promises']))


if __name__ == '__main__':
    unittest.main()
