#!/usr/bin/python3
"""Runs the unittest cases of one file and prints TAP, so that each case counts and is seen live.

    tests/tap.py [--alone] FILE.py [unittest name...]

--alone: in process, network and mount namespaces of its own (root). The test then sees no
other tenant's processes and links, and what it leaves running ends with it.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
import unittest


class TapResult(unittest.TestResult):
    """Prints one TAP line per case; the traceback of a failure goes to stderr."""

    def __init__(self):
        super().__init__()
        self.started = 0.0
        self.red = False

    def startTest(self, test):
        super().startTest(test)
        self.started, self.red = time.monotonic(), False

    def stopTest(self, test):
        verdict = 'not ok' if self.red else 'ok'
        took = (time.monotonic() - self.started) * 1000
        name = test.id() if ' ' in test.id() else test.id().partition('.')[2]
        print(f'{verdict} {self.testsRun} - {name} ({took:.0f} ms)', flush=True)
        super().stopTest(test)

    def _failed(self, test, text):
        self.red = True
        print(f'---- {test.id()}\n{text}', file=sys.stderr, flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(test, self.errors[-1][1])
        if not isinstance(test, unittest.TestCase):  # setUpClass, setUpModule: no case started
            self.testsRun += 1
            self.started = time.monotonic()
            self.stopTest(test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            failed = issubclass(err[0], test.failureException)
            self._failed(subtest, (self.failures if failed else self.errors)[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._failed(test, f'skipped: {reason}')

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._failed(test, 'expected to fail, but passed')


def main(path, *names):
    file = pathlib.Path(path).resolve()
    sys.path[:0] = [str(file.parent), str(pathlib.Path(__file__).resolve().parent)]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    loader = unittest.TestLoader()
    suite = (loader.loadTestsFromNames(names, module) if names
             else loader.loadTestsFromModule(module))
    print(f'1..{suite.countTestCases()}', flush=True)
    result = TapResult()
    suite.run(result)
    return 0 if result.testsRun and not (result.failures or result.errors or result.skipped
                                         or result.unexpectedSuccesses) else 1


def enter_own_namespaces(arguments):
    """Returns in a child of the new namespace's process 1, which itself only reaps."""
    if os.getpid() != 1:
        os.execvp('unshare', ['unshare', '--mount', '--pid', '--net', '--fork', '--kill-child',
                              '--mount-proc', *arguments])
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    child = os.fork()
    while child != 0:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xff)


if __name__ == '__main__':
    if sys.argv[1:2] == ['--alone']:
        enter_own_namespaces(sys.argv)
        del sys.argv[1]
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
