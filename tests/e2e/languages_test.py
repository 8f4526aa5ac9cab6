"""Every language of the image code-interpreter: what a run leaves to the next, how errors are told, an
interrupt; and what clients of OpenSandbox expect of that image."""
import json
import subprocess
import unittest

import atoll
from box import Box
from contexts import START_SECONDS, Contexts, error, result, texts

NAME = 'opensandbox/code-interpreter:v1.1.0'
ENTRYPOINT = '/opt/code-interpreter/code-interpreter.sh'

GO = 'package main\nimport ("fmt"; "os")\nfunc main() { %s }\n'


def import_code_interpreter(daemon):
    subprocess.run([atoll.BUILD / 'atoll', 'image', 'import', atoll.image_archive('code-interpreter'), '--name', NAME],
                   check=True, stdout=subprocess.DEVNULL, env=daemon.client_env(), timeout=600 * atoll.SLOWNESS)


class Languages(Contexts, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        import_code_interpreter(cls.daemon)
        cls.box = Box(cls.daemon, NAME, entrypoint=[ENTRYPOINT],
                      resourceLimits={'cpu': '2', 'memory': '4Gi', 'pids': '1000'})

    def shows(self, context, code, wanted):
        events = self.run_in(context, code)
        self.assertIsNone(error(events), events)
        self.assertEqual(texts(events), wanted, events)

    def fails(self, context, code, name):
        events = self.run_in(context, code)
        self.assertEqual(error(events)['ename'], name, events)
        self.assertEqual(events[-1]['type'], 'execution_complete')
        return error(events)

    def test_python(self):
        context = self.create('python')
        self.shows(context, 'import numpy, pandas, matplotlib\nx = 8\nprint(x + 9)', '17\n')
        self.shows(context, 'print(x)', '8\n')
        self.fails(context, 'y', 'NameError')
        self.assertEqual(error(self.interrupt(context, 'print("ready")\nwhile True: pass'))['ename'],
                         'KeyboardInterrupt')
        self.shows(context, 'print(x)', '8\n')

    def test_bash(self):
        context = self.create('bash')
        self.shows(context, 'x=8; echo $((x+9))', '17\n')
        self.shows(context, 'echo $x', '8\n')
        self.interrupt(context, 'echo ready; sleep 600')
        self.shows(context, 'echo next', 'next\n')

    def test_javascript_and_typescript(self):
        for language, first in (('javascript', 'let x = 8'), ('typescript', 'let x: number = 8')):
            context = self.create(language)
            self.shows(context, f'{first}; console.log(x + 9)', '17\n')
            self.shows(context, 'console.log(x)', '8\n')
            self.assertIsNotNone(error(self.run_in(context, 'const y: number = "text"; nope()')))

    def test_java(self):
        context = self.create('java')
        self.shows(context, 'System.out.println("Hello from Java!");\nint x = 2;', 'Hello from Java!\n')
        events = self.run_in(context, 'x + 2')
        self.assertEqual(result(events)['text'], '4', events)
        self.fails(context, 'int y = 1 / 0;', 'EvalException')
        self.assertIsNotNone(error(self.run_in(context, 'int z = "text";')))
        self.interrupt(context, 'System.out.println("ready");\nThread.sleep(600000);')
        self.shows(context, 'System.out.println("next");', 'next\n')

    def test_go(self):
        context = self.create('go')
        self.shows(context, GO % 'os.WriteFile("kept", []byte("8"), 0644); fmt.Println(8 + 9)', '17\n')
        # A program's memory ends with it; its files stay.
        self.shows(context, GO % 'b, _ := os.ReadFile("kept"); fmt.Println(string(b))', '8\n')
        self.shows(context, 'import "fmt"\nfunc main() { fmt.Println("no package") }', 'no package\n')
        self.assertEqual(texts(self.run_in(context, 'func main() { println("low") }'), 'stderr'),
                         'low\n')
        told = self.fails(context, 'package main\nfunc main() {\n  x := 1\n}', 'CompileError')
        self.assertIn('run.go:3', told['evalue'])
        self.fails(context, GO % 'fmt.Println(); os.Exit(3)', 'ExitError')
        self.fails(context, 'func main() { panic("x") }', 'ExitError')
        busy = self.interrupt(context, GO.replace('"os"', '"time"') %
                              'fmt.Println("ready"); for { time.Sleep(time.Second) }')
        self.assertIn(error(busy)['ename'], ('SIGINT', 'KeyboardInterrupt'))
        self.shows(context, GO % 'fmt.Println("next"); os.Exit(0)', 'next\n')

    def test_rust(self):
        context = self.create('rust')
        self.shows(context, 'fn main() { println!("{}", 8 + 9); std::fs::write("kept", "8").unwrap(); }',
                   '17\n')
        self.shows(context, 'print!("{}", std::fs::read_to_string("kept").unwrap());', '8')
        told = self.fails(context, 'fn main() {\n  let x: i32 = "text";\n}', 'CompileError')
        self.assertIn('run.rs:2', told['evalue'])
        self.fails(context, 'panic!("x")', 'ExitError')
        busy = self.interrupt(context, 'println!("ready"); loop {}')
        self.assertIn(error(busy)['ename'], ('SIGINT', 'KeyboardInterrupt'))
        self.shows(context, 'println!("next")', 'next\n')

    def test_sql(self):
        context, other = self.create('sql'), self.create('sql')
        events = self.run_in(context, "create table t(a, b); insert into t values (1, 'x;'), (2, null)")
        self.assertEqual(json.loads(result(events)['text']),
                         {'columns': ['affected_rows'], 'rows': [[2]]})
        events = self.run_in(context, 'select * from t order by a')
        self.assertEqual(json.loads(result(events)['text']),
                         {'columns': ['a', 'b'], 'rows': [[1, 'x;'], [2, None]]})
        self.fails(other, 'select * from t', 'DBQueryError')
        self.fails(context, 'insert into absent values (1)', 'DBExecError')
        endless = 'with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'
        response = self.box.open('POST', '/code', {'code': endless, 'context': {'id': context}})
        atoll.until(lambda: self.box.call('DELETE', f'/code?id={context}').status == 200, START_SECONDS,
                    'it runs and is interrupted')
        events = [json.loads(part) for part in response.read().decode().split('\n\n') if part]
        self.assertEqual(error(events)['ename'], 'KeyboardInterrupt')
        events = self.run_in(context, 'select count(*) from t')
        self.assertEqual(json.loads(result(events)['text'])['rows'], [[2]])

    def test_the_entrypoint(self):
        """Says which of the versions that are asked for the image has not; both paths are there."""
        box = Box(self.daemon, NAME, entrypoint=['/opt/opensandbox/code-interpreter.sh'],
                  env={'PYTHON_VERSION': '3.12', 'JAVA_VERSION': '21', 'GO_VERSION': '1.24.1',
                       'NODE_VERSION': '22'})
        logs = lambda: self.daemon.send('GET', f'/v1/sandboxes/{box.id}/diagnostics/logs').read().decode()
        atoll.until(lambda: 'Node' in logs(), START_SECONDS, 'it has looked at all of them')
        self.assertIn('Python 3.12 was asked for; this image has 3.13 only', logs())
        self.assertIn('Node 22 was asked for; this image has 20 only', logs())
        self.assertNotIn('Java', logs())
        self.assertNotIn('Go', logs())
        self.daemon.delete(box.id)
        box = Box(self.daemon, NAME, entrypoint=[ENTRYPOINT, 'sh', '-c', 'sleep 98765'])
        atoll.until(lambda: 'sleep' in box.processes(), START_SECONDS, 'what follows it runs')
        self.assertEqual(box.out('pwd'), '/workspace')
        self.daemon.delete(box.id)

    def test_tools(self):
        for program in ('git', 'curl', 'gcc', 'make', 'javac', 'go', 'rustc', 'node', 'npm', 'pip3'):
            self.assertTrue(self.box.out(f'command -v {program}'), program)


if __name__ == '__main__':
    unittest.main()
