"""What each language of the image code-interpreter keeps to: its state, its contexts, interrupts, output of
any kind and size, many runs, many contexts, a kernel that is killed for its memory. A line that a test prints
with `#` is for images/recipes/LANGUAGES.md."""
import pathlib
import threading
import time
import unittest

import atoll
from box import Box
from contexts import START_SECONDS, Contexts, error, result, texts
from languages_test import ENTRYPOINT, NAME, import_code_interpreter

RUNS = 1000
AT_ONCE = 20
MIB = 1024 * 1024
WORDS = 'Grüße, 世界 🌍'


class Contract(Contexts):
    """A language: its name, and what says what it is to say, in its own words. MINE and OTHER are paths."""
    LANGUAGE = ''
    KEEP = SHOW = ''                  # SHOW says 8 after KEEP has run
    MEET = ''                         # makes MINE, waits for OTHER, says "met"
    BUSY = SLEEP = ''                 # say "ready", then go on for ever
    SAY = ''                          # says what stands for TEXT
    RAW = ''                          # says the bytes FF, FE, 65 and E4, the first of a character, and no line's end
    LARGE = ''                        # says 10 MiB
    GREEDY = ''                       # takes memory until it is killed
    GREEDY_ENDS = 'out of memory'     # what the client is told, in part
    RICH = ''                         # shows HTML or a picture
    RICH_IS = ''                      # its MIME type; none where the language has no way to show more than text
    GROWTH = 24 * MIB                 # between run 200 and the last
    IMPORT = {}                       # of the sandbox

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        import_code_interpreter(cls.daemon)
        cls.box = cls.sandbox('8Gi')

    @classmethod
    def sandbox(cls, memory):
        return Box(cls.daemon, NAME, entrypoint=[ENTRYPOINT],
                   resourceLimits={'cpu': '2', 'memory': memory, 'pids': '4000'})

    def said(self, context, code, box=None):
        events = self.run_in(context, code, box)
        self.assertIsNone(error(events), events[-3:])
        return texts(events)

    def meets(self, mine, other):
        return self.MEET.replace('MINE', mine).replace('OTHER', other)

    def resident(self):
        total = 0
        for pid in self.box.pids():
            lines = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text(encoding='ascii').splitlines()
            total += int([line for line in lines if line.startswith('Pss:')][0].split()[1]) * 1024
        return total

    def test_state_is_kept(self):
        context = self.create(self.LANGUAGE)
        self.said(context, self.KEEP)
        self.assertEqual(self.shown(context), '8')

    def shown(self, context):
        return self.said(context, self.SHOW).strip()

    def test_contexts_are_apart(self):
        one, other = self.create(self.LANGUAGE), self.create(self.LANGUAGE)
        self.said(one, self.KEEP)
        self.assertIsNotNone(error(self.run_in(other, self.SHOW)))
        self.assertEqual(self.shown(one), '8')

    def test_contexts_run_side_by_side(self):
        paths = [f'/tmp/{self.LANGUAGE}.{n}' for n in range(2)]
        contexts = [self.create(self.LANGUAGE) for _ in paths]
        told = {}

        def run(n):
            told[n] = self.run_in(contexts[n], self.meets(paths[n], paths[1 - n]))
        threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(START_SECONDS)
        self.assertEqual({n: texts(events).strip() for n, events in told.items()}, {0: 'met', 1: 'met'}, told)

    def interrupted(self, code):
        context = self.create(self.LANGUAGE)
        events = self.interrupt(context, code)
        self.assertIsNotNone(error(events), events)
        return context

    def goes_on(self, context):
        self.said(context, self.KEEP)
        self.assertEqual(self.shown(context), '8')

    def test_a_busy_loop_is_interrupted(self):
        self.goes_on(self.interrupted(self.BUSY))

    def test_a_sleep_is_interrupted(self):
        self.goes_on(self.interrupted(self.SLEEP))

    def test_unicode(self):
        self.assertEqual(self.said(self.create(self.LANGUAGE), self.SAY.replace('TEXT', WORDS)).strip(), WORDS)

    def test_what_is_no_text(self):
        context = self.create(self.LANGUAGE)
        self.assertEqual(self.said(context, self.RAW), '\ufffd\ufffde\ufffd')
        self.assertEqual(self.said(context, self.SAY.replace('TEXT', 'next')).strip(), 'next')

    def test_ten_mebibytes(self):
        self.assertEqual(len(self.said(self.create(self.LANGUAGE), self.LARGE)), 10 * MIB)

    def test_more_than_text(self):
        events = self.run_in(self.create(self.LANGUAGE), self.RICH)
        self.assertIsNone(error(events), events)
        shown = [one['results'] for one in events if one['type'] in ('result', 'display_data')]
        self.assertTrue(any(self.RICH_IS in one for one in shown), events)

    def test_many_runs_do_not_grow(self):
        context = self.create(self.LANGUAGE)
        began = time.monotonic()
        for n in range(RUNS):
            self.assertEqual(self.said(context, self.SAY.replace('TEXT', str(n))).strip(), str(n))
            if n == 200:
                before = self.resident()
        took = (time.monotonic() - began) / RUNS
        grown = self.resident() - before
        print(f'# {self.LANGUAGE}: a run {took * 1e3:.1f} ms, {RUNS} grow it by {grown / MIB:.1f} MiB', flush=True)
        self.assertLess(grown, self.GROWTH)

    def test_many_contexts_at_once(self):
        made, told = [], {}

        def run(n):
            context = self.create(self.LANGUAGE)
            made.append(context)
            told[n] = self.said(context, self.SAY.replace('TEXT', str(n))).strip()
        began = time.monotonic()
        threads = [threading.Thread(target=run, args=(n,)) for n in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(START_SECONDS)
        print(f'# {self.LANGUAGE}: {AT_ONCE} contexts {time.monotonic() - began:.1f} s', flush=True)
        self.assertEqual(told, {n: str(n) for n in range(AT_ONCE)})
        self.assertEqual(len(set(made)), AT_ONCE)

    def test_a_kernel_killed_for_its_memory(self):
        box = self.sandbox('1Gi')
        self.addCleanup(self.daemon.delete, box.id)
        context, other = self.create(self.LANGUAGE, box), self.create(self.LANGUAGE, box)
        self.said(other, self.KEEP, box)
        events = self.run_in(context, self.GREEDY, box)
        self.assertIsNotNone(error(events), events)
        self.assertIn(self.GREEDY_ENDS, str(error(events)))
        # Another takes its place.
        self.assertEqual(self.said(context, self.SAY.replace('TEXT', 'next'), box).strip(), 'next')
        self.assertEqual(box.state()['state'], 'Running')
        self.assertEqual(self.said(other, self.SHOW, box).strip(), '8')


class Python(Contract, unittest.TestCase):
    LANGUAGE = 'python'
    KEEP, SHOW = 'x = 8', 'print(x)'
    MEET = 'import os\nopen("MINE", "w")\nwhile not os.path.exists("OTHER"): pass\nprint("met")'
    BUSY = 'print("ready")\nwhile True: pass'
    SLEEP = 'import time\nprint("ready")\ntime.sleep(600)'
    SAY = 'print("TEXT")'
    RAW = 'import os\nos.write(1, b"\\xff\\xfee\\xe4"); None'
    LARGE = 'for _ in range(10240): print("é" * 1023)'
    GREEDY = 'held = []\nwhile True: held.append(b"x" * (16 << 20))'
    RICH = 'import matplotlib.pyplot as plot\nplot.plot([1, 2])\nplot.show()'
    RICH_IS = 'image/png'


class Bash(Contract, unittest.TestCase):
    LANGUAGE = 'bash'
    KEEP, SHOW = 'x=8', 'echo ${x:?}'
    MEET = 'touch MINE; until [ -e OTHER ]; do sleep 0.01; done; echo met'
    BUSY = 'echo ready; while :; do :; done'
    SLEEP = 'echo ready; sleep 600'
    SAY = 'echo "TEXT"'
    RAW = "printf '\\377\\376e\\344'"
    LARGE = 'yes "$(printf é%.0s {1..1023})" | head -n 10240'
    GREEDY = 'held=x; while :; do held=$held$held; done'
    RICH = 'echo "<b>bold</b>" >/tmp/page; displayHTML </tmp/page'
    RICH_IS = 'text/html'

    def test_a_kernel_killed_for_its_memory(self):
        """Where a cgroup of version 2 does not take both, the kernel starts another bash by itself."""
        box = self.sandbox('1Gi')
        self.addCleanup(self.daemon.delete, box.id)
        context = self.create('bash', box)
        events = self.run_in(context, self.GREEDY, box)
        self.assertIn('out of memory' if error(events) else 'Restarting Bash', str(error(events) or texts(events)))
        self.assertEqual(self.said(context, 'echo next', box), 'next\n')


class Script(Contract):
    MEET = 'const fs = require("fs"); fs.writeFileSync("MINE", ""); while (!fs.existsSync("OTHER")); console.log("met")'
    BUSY = 'console.log("ready"); while (true);'
    # Said by the loop: Node loses a SIGINT that comes as the run's own part ends.
    SLEEP = 'setTimeout(() => console.log("ready"), 10); await new Promise(done => setTimeout(done, 600000))'
    SAY = 'console.log("TEXT")'
    RAW = 'process.stdout.write(Buffer.from([255, 254, 101, 0xe4]))'
    LARGE = 'for (let i = 0; i < 10240; i++) console.log("é".repeat(1023))'
    GREEDY = 'const held = []; while (true) held.push(Buffer.alloc(16 << 20, 1))'
    RICH = 'require("tslab").display.html("<b>bold</b>")'
    RICH_IS = 'text/html'
    GROWTH = 200 * MIB  # what the compiler keeps of each run until it collects


class JavaScript(Script, unittest.TestCase):
    LANGUAGE = 'javascript'
    KEEP, SHOW = 'let x = 8', 'console.log(x)'


class TypeScript(Script, unittest.TestCase):
    LANGUAGE = 'typescript'
    KEEP, SHOW = 'let x: number = 8', 'console.log(x)'
    MEET = 'import * as fs from "fs"; fs.writeFileSync("MINE", ""); while (!fs.existsSync("OTHER")); console.log("met")'
    GREEDY = 'const held: Buffer[] = []; while (true) held.push(Buffer.alloc(16 << 20, 1))'
    RICH = 'import { display } from "tslab"; display.html("<b>bold</b>")'


class Java(Contract, unittest.TestCase):
    LANGUAGE = 'java'
    KEEP, SHOW = 'int x = 8;', 'System.out.println(x);'
    MEET = ('import java.nio.file.*;\nFiles.createFile(Path.of("MINE"));\n'
            'while (!Files.exists(Path.of("OTHER"))) Thread.sleep(10);\nSystem.out.println("met");')
    BUSY = 'System.out.println("ready");\nwhile (true);'
    SLEEP = 'System.out.println("ready");\nThread.sleep(600000);'
    SAY = 'System.out.println("TEXT");'
    RAW = 'System.out.write(new byte[] {-1, -2, 101, (byte) 0xe4}, 0, 4); System.out.flush();'
    LARGE = 'for (int i = 0; i < 10240; i++) System.out.println("é".repeat(1023));'
    # Of the heap it takes a quarter and says so; what is outside of the heap nobody counts.
    GREEDY = ('var field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");\nfield.setAccessible(true);\n'
              'var unsafe = (sun.misc.Unsafe) field.get(null);\n'
              'while (true) unsafe.setMemory(unsafe.allocateMemory(16 << 20), 16 << 20, (byte) 1);')
    RICH = 'display("<b>bold</b>", "text/html");'
    RICH_IS = 'text/html'
    GROWTH = 200 * MIB  # its heap is collected when it is full


class Programs(Contract):
    """Languages of whole programs: what a run leaves is in files, which all contexts see."""
    test_contexts_are_apart = None  # nothing in memory outlives a run
    test_more_than_text = None      # a program has its two outputs


class Go(Programs, unittest.TestCase):
    LANGUAGE = 'go'
    MAIN = 'package main\nimport ("fmt"; "os"; "time"; "strings")\nvar _ = os.Args; var _ = time.Now; var _ = strings.Repeat\n' \
           'func main() { %s }\n'
    KEEP = MAIN % 'os.WriteFile("kept", []byte("8"), 0644); fmt.Println()'
    SHOW = MAIN % 'b, _ := os.ReadFile("kept"); fmt.Println(string(b))'
    MEET = MAIN % ('os.WriteFile("MINE", nil, 0644); for { if _, err := os.Stat("OTHER"); err == nil { break }; '
                   'time.Sleep(10 * time.Millisecond) }; fmt.Println("met")')
    BUSY = MAIN % 'fmt.Println("ready"); for {}'
    SLEEP = MAIN % 'fmt.Println("ready"); time.Sleep(600 * time.Second)'
    SAY = MAIN % 'fmt.Println("TEXT")'
    RAW = MAIN % 'os.Stdout.Write([]byte{255, 254, 101, 0xe4})'
    LARGE = MAIN % 'for i := 0; i < 10240; i++ { fmt.Println(strings.Repeat("é", 1023)) }'
    GREEDY = MAIN % ('var held [][]byte; for { part := make([]byte, 16<<20); for i := range part { part[i] = 1 }; '
                     'held = append(held, part); if len(held) > 1<<20 { fmt.Println(len(held)) } }')
    GREEDY_ENDS = 'SIGKILL'


class Rust(Programs, unittest.TestCase):
    LANGUAGE = 'rust'
    KEEP = 'std::fs::write("kept", "8").unwrap();'
    SHOW = 'println!("{}", std::fs::read_to_string("kept").unwrap());'
    MEET = ('std::fs::write("MINE", "").unwrap(); while !std::path::Path::new("OTHER").exists() '
            '{ std::thread::sleep(std::time::Duration::from_millis(10)); } println!("met");')
    BUSY = 'println!("ready"); loop {}'
    SLEEP = 'println!("ready"); std::thread::sleep(std::time::Duration::from_secs(600));'
    SAY = 'println!("TEXT");'
    RAW = 'use std::io::Write; std::io::stdout().write_all(b"\\xff\\xfee\\xe4").unwrap();'
    LARGE = 'for _ in 0..10240 { println!("{}", "é".repeat(1023)); }'
    GREEDY = 'let mut held = Vec::new(); loop { held.push(vec![1u8; 16 << 20]); if held.len() > 1 << 20 { break; } }'
    GREEDY_ENDS = 'SIGKILL'


class Sql(Contract, unittest.TestCase):
    """Says what a statement's rows are, in JSON; a statement that waits there is none."""
    LANGUAGE = 'sql'
    KEEP, SHOW = 'drop table if exists t; create table t as select 8 as x', 'select x from t'
    SAY = "select 'TEXT' as said"
    RAW = "select cast(x'fffe65e4' as text) as said"
    ENDLESS = 'with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'
    LARGE = 'select printf(\'%.*c\', 10485760, \'x\') as x'
    GREEDY = 'with recursive n(i) as (select 1 union all select i + 1 from n) select i, hex(zeroblob(100000)) from n'

    def said(self, context, code, box=None):
        events = self.run_in(context, code, box)
        self.assertIsNone(error(events), events[-3:])
        rows = atoll.json.loads(result(events)['text'])['rows']
        return str(rows[0][0])

    def endless(self, context, path):
        """The response to a statement that has begun, and does not end."""
        response = self.box.open('POST', '/code', {'context': {'id': context}, 'code':
                                 f"attach '{path}' as begun; create table begun.t(x); {self.ENDLESS}"})
        atoll.until(lambda: self.box.out(f'[ -s {path} ] && echo there || true') == 'there', START_SECONDS,
                    'it has begun')
        return response

    def test_contexts_run_side_by_side(self):
        one, other = self.create('sql'), self.create('sql')
        response = self.endless(one, '/tmp/side')
        self.assertEqual(self.said(other, 'select 8'), '8')
        self.assertEqual(self.box.call('DELETE', f'/code?id={one}').status, 200)
        response.read()

    def interrupted(self, code):
        context = self.create('sql')
        path = '/tmp/busy'
        events = self.interrupt(context, f"attach '{path}' as begun; create table begun.t(x); {self.ENDLESS}",
                                lambda: self.box.out(f'[ -s {path} ] && echo there || true') == 'there')
        self.assertEqual(error(events)['ename'], 'KeyboardInterrupt')
        return context

    test_a_sleep_is_interrupted = None  # no statement sleeps
    test_more_than_text = None          # rows are JSON


if __name__ == '__main__':
    unittest.main()
