#!/usr/bin/python3
"""Shows each check a small tree with one fault, and the tally some logs: all must be noticed."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

# pylint: disable=wrong-import-position
import banned
import comments
import includes
import layout
import routes
import tally
import tree

RULES = includes.Rules(includes.RULES.read_text(encoding='utf-8'))
BANS = banned.parse(banned.BANS.read_text(encoding='utf-8'))


def complaints(check, sources):
    """What `check` says about a tree with these files."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        for path, text in sources.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding='utf-8')
        return [line for lines in check(root).values() for line in lines]


def expect(verdict, name, check, sources, text):
    """`text` in a complaint (None: there must be none)."""
    found = complaints(check, sources)
    good = not found if text is None else any(text in line for line in found)
    verdict[name] = [] if good else [f'{name}: expected {text!r}, got {found}']


def include_cases(verdict):
    for path, line, text in (
            ('runtime/wire/a.cc', '#include "runtime/base/result.h"', None),
            ('runtime/base/a.cc', '#include "runtime/wire/plan.h"', 'may not include'),
            ('runtime/base/a.cc', '  #  include "images/image.h"', 'may not include'),
            ('runtime/wire/a.cc', '#include "cgroup/limits.h"', None),
            ('runtime/wire/a.cc', '#include "cgroup/tree.h"', 'may not include'),
            ('runtime/api/a.cc', '#include "result.h"', 'not a path from the top'),
            ('runtime/http/a.cc', '#include <openssl/ssl.h>', None),
            ('runtime/http/a.h', '#include <openssl/ssl.h>', 'only for'),
            ('runtime/spawner/a.cc', '#include <nlohmann/json.hpp>', 'only for'),
            ('runtime/base/a.cc', '#include <unheard/of.h>', 'no line of the table'),
            ('runtime/base/a.cc', '#include <sys/mman.h>\n#include <string>', None),
            ('tests/a.cc', '#include "runtime/api/routes.h"\n#include <gtest/gtest.h>', None),
            ('elsewhere/a.cc', '', 'elsewhere/a.cc')):
        expect(verdict, f'{path} with {line.strip()!r}', lambda root: includes.check(root, RULES),
               {path: line + '\n'}, text)
    for sources, text in (
            ({'runtime/wire/a.cc': '#include "cgroup/limits.h"\n',
              'cgroup/a.cc': '#include "runtime/wire/plan.h"\n'}, 'include each other: cgroup runtime/wire'),
            ({'runtime/wire/a.cc': '#include "cgroup/limits.h"\n',
              'cgroup/a.cc': '#include "runtime/base/result.h"\n'}, None)):
        expect(verdict, f'includes of {" and ".join(sources)}: {text}',
               lambda root: includes.check(root, RULES), sources, text)


def ban_cases(verdict):
    for path, line, text in (
            ('cgroup/a.cc', 'std::system("ls");', 'a shell'),
            ('cgroup/a.cc', 'auto f = ::popen(x, "r");', 'a shell'),
            ('cgroup/a.cc', 'operating_system(); config.system();', None),
            ('cgroup/a.cc', '// never popen(3): system() is worse', None),
            ('cgroup/a.cc', 'Log("call system() // never");', None),
            ('cgroup/a.cc', 'if (fork() == 0) {}', 'only the spawner'),
            ('execd/a.cc', 'if (::fork() == 0) {}', None),
            ('execd/a.cc', 'int b = dup(a);', 'close-on-exec'),
            ('execd/a.cc', 'int b = ::dup2(a, 1);', None),
            ('execd/a.cc', 'int b = std::strtol(a, 0, 10);', 'from_chars'),
            ('tests/a.cc', 'std::this_thread::sleep_for(1ms);', 'wait for'),
            ('tests/a.py', 'time.sleep(1)', 'event with a deadline'),
            ('tests/a.cc', 'GTEST_SKIP() << "no root";', 'has to fail'),
            ('tests/a.cc', 'TEST(A, DISABLED_B) {}', 'switched off'),
            ('images/a.h', 'class LayerManager {', 'says nothing'),
            ('images/a.cc', 'std::thread t(f);', 'all the threads'),
            ('images/a.cc', 'std::this_thread::get_id();', None),
            ('images/a.cc', 'try { f(); } catch (...) {\n}', 'swallows'),
            ('images/README.md', 'TO' 'DO: write', 'left to do'),
            ('images/meson.build', '<' * 7 + ' HEAD', 'not finished'),
            ('images/README.md', 'see iss' 'ue 12', 'without a tracker'),
            ('images/README.md', 'lives in /wo' 'rk/main', 'own machine')):
        expect(verdict, f'{path} with {line!r}', lambda root: banned.check(root, BANS),
               {path: line + '\n'}, text)


def comment_cases(verdict):
    for text, complaint in (
            ('// Returns the digest.\nint a;', None),
            ('// Of the whole file.\nint a;', 'cgroup/a.h:1: '),
            ('int a;  // in bytes', '"in bytes"'),
            ('/* What it is. */ int a;', '"What it is."'),
            ("// Whose\n// slot it is.\nint a;", '"Whose"'),
            ('int a;  // bytes\n// As Send.\nint b;', 'cgroup/a.h:2: '),
            ('// Blocks until the slot\n// of the sandbox is free.', None),
            ('int a;  // size of the file\n        // in bytes', None),
            ('// Inode of the file.\n// - as many as there are', None),
            ('// in-place change\nint a;', None),
            ('const char a[] = "x // of y";', None),
            ('const char a[] = R"(\n// of y\n)"; int b;  // at most 3', 'a.h:3: '),
            ("char a = '\"';  // for tests", '"for tests"'),
            ("int a = 1'000;  // per second", '"per second"')):
        expect(verdict, f'comment {text!r}', comments.check, {'cgroup/a.h': text + '\n'}, complaint)


def route_cases(verdict):
    table = '{Service::kExecd, "GET", "/ping"},\n{Service::kExecd, "*", "/{full_path:path}"},\n'
    for name, code, rows, text in (
            ('routes with rows', 'router_.Add("GET", "/ping", f);', table, None),
            ('a route without a row', 'router_.Add("GET", "/pong", f);', table, "no row for execd's GET /pong"),
            ('a row without a route', '', table, 'execd has no GET /ping'),
            ('a route that cannot be read', 'add(method, "/ping", f); add("GET", name, f);', table, 'cannot read')):
        expect(verdict, name, routes.check,
               {'execd/execd.cc': code + '\n', routes.TABLE: rows}, text)


def layout_cases(verdict):
    readme = {'cgroup/README.md': '\n' * 9}
    rules = {'tools/checks/include_rules.txt': 'folder cgroup : runtime/base\n', 'tools/README.md': '\n' * 9}
    drawing = '<!-- folders: begin -->\n  cgroup   → base   limits\n<!-- folders: end -->\n'
    for name, extra, text in (
            ('a tree as it should be', {}, None),
            ('a stray folder', {'misc/a.txt': ''}, 'misc/a.txt'),
            ('a folder without README', {'images/a.cc': ''}, 'images/README.md'),
            ('a long first page', {'README.md': '\n' * 81}, '81 lines, 80 are'),
            ('a long overview', {'cgroup/README.md': '\n' * 111}, '111 lines, 110 are'),
            ('a long room', {'cgroup/v1/README.md': '\n' * 41}, '41 lines, 40 are'),
            ('a folder with rooms', {'cgroup/v1/README.md': '\n' * 41, 'cgroup/v1/x/README.md': '\n'}, None),
            ('a folder that is drawn', {**rules, 'ARCHITECTURE.md': drawing}, None),
            ('a folder that is not drawn', rules, 'cgroup: only in include_rules.txt'),
            ('a folder that is only drawn', {'ARCHITECTURE.md': drawing}, 'cgroup: only in ARCHITECTURE.md'),
            ('an arrow that is forbidden',
             {**rules, 'ARCHITECTURE.md': drawing.replace('→ base', '→ base wire')}, 'cgroup → wire'),
            ('a header that no README names', {'cgroup/a.h': ''}, 'cgroup/a.h'),
            ('one that is named', {'cgroup/a.h': '', 'cgroup/README.md': '\n' * 9 + '`b`, `a.h`\n'}, None),
            ('one of several that are named', {'cgroup/b_c.h': '', 'cgroup/README.md': '\n' * 9 + '`b_*`\n'},
             None),
            ('links', {'cgroup/a.md': '# Of `x`\n[a](README.md) [b](../cgroup) [c](#of-x) [d](https://a.example/b)\n'}, None),
            ('paths', {'cgroup/a.md': '`cgroup/README.md` `cgroup/a` `cgroup/` `cgroup/*.h`\n'}, None),
            ('a path to no file', {'cgroup/a.md': '`cgroup/b.h`\n'}, 'cgroup/b.h is not there'),
            ('a link to no file', {'cgroup/a.md': '[a](b.md)\n'}, 'b.md leads nowhere'),
            ('a link to no heading', {'cgroup/a.md': '[a](README.md#a)\n'}, 'README.md#a leads nowhere'),
            ('a long source file', {'cgroup/a.cc': '\n' * 901}, '901 lines')):
        expect(verdict, name, layout.check, {**readme, **extra}, text)


def link_cases(verdict):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / 'file').touch()
        (root / 'link').symlink_to(__file__)
        got = tree.files(root)
    verdict['a link out of the tree'] = [] if got == ['file'] else [f'it is followed: {got}']


def tally_cases(verdict):
    gtest = ('[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n'
             '[  FAILED  ] A.C (12 ms)\n[  SKIPPED ] A.D (0 ms)\n[  FAILED  ] A.C\n')
    for name, result, output, want in (
            ('green GoogleTest', 'OK', '[       OK ] A.B (0 ms)\n[       OK ] A/C.D/0 (3 ms)\n', (2, 0)),
            ('red and skipped GoogleTest', 'FAIL', gtest, (1, 2)),
            ('red parameter', 'FAIL', '[  FAILED  ] A/B.C/1, where GetParam() = 4 (1 ms)\n', (0, 1)),
            ('crash after a pass', 'FAIL', '[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n', (1, 1)),
            ('crash before all', 'FAIL', '', (0, 1)),
            ('time-out', 'TIMEOUT', '[       OK ] A.B (0 ms)\n', (1, 1)),
            ('TAP', 'FAIL', '1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no c\n', (1, 2)),
            ('a program that names no case', 'OK', 'fine\n', (1, 0)),
            ('a skipped program', 'SKIP', '', (0, 1))):
        passed, failed = tally.tally(
            {'name': 'n', 'stdout': output, 'result': result, 'returncode': 1})
        got = (passed, len(failed))
        verdict[f'tally: {name}'] = [] if got == want else [f'tally: {name}: {got}, not {want}']
    _, failed = tally.tally({
        'name': 'n', 'stdout': 'not ok 1 - C.test_b (7 ms)\nnot ok 2 - C.test (7 ms)\n', 'result': 'FAIL',
        'stderr': '---- m.C.test_b\nTraceback\n  x\nKeyError: 1\n\n---- m.C.test\nTraceback\nm.OddError: 2\n\n(end)\n'})
    want = ['n: C.test_b (7 ms): KeyError: 1', 'n: C.test (7 ms): m.OddError: 2']
    verdict['tally: why'] = [] if failed == want else [f'tally: why: {failed}']
    second_run_cases(verdict)


def second_run_cases(verdict):
    """A second run that passes makes a program flaky; a second red, or none, is red."""
    def log(path, *programs):
        path.write_text(''.join(json.dumps({'name': name, 'result': 'OK' if ok else 'FAIL', 'returncode': not ok,
                                            'stdout': f'{"ok" if ok else "not ok"} 1 - A.test\n'}) + '\n'
                                for name, ok in programs), encoding='utf-8')
    for name, again, want in (
            ('a second run that passes', [('red', True)], (2, 0, 1)),
            ('a second red', [('red', False)], (1, 1, 0)),
            ('no second run', None, (1, 1, 0)),
            ('a second run of another program', [('other', True)], (1, 1, 0)),
            ('a second run of what was green', [('red', True), ('green', False)], (2, 0, 1))):
        with tempfile.TemporaryDirectory() as folder:
            first = pathlib.Path(folder) / 'x.json'
            log(first, ('green', True), ('red', False))
            if again is not None:
                log(first.with_name('x-again.json'), *again)
            passed, failed, flaky = tally.count(str(first))
        got = (passed, len(failed), len(flaky))
        verdict[f'tally: {name}'] = [] if got == want else [f'tally: {name}: {got}, not {want}']


if __name__ == '__main__':
    outcome = {}
    for cases in (include_cases, ban_cases, comment_cases, layout_cases, route_cases, link_cases, tally_cases):
        cases(outcome)
    sys.exit(tree.report(outcome))
