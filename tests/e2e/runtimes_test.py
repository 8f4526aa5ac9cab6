"""A JVM, Node, Go and Python as Debian ships them, in a sandbox of one processor and 512 MiB."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import atoll
from box import Box

MIB = 1 << 20
JAVA = ('public class Seen { public static void main(String[] a) { Runtime r = Runtime.getRuntime();'
        ' System.out.println(r.availableProcessors() + " " + r.maxMemory()); } }')
# What fits into the heap it gave itself fits into the sandbox.
GREEDY = ('import java.util.*; public class Greedy { public static void main(String[] a) {'
          ' List<byte[]> all = new ArrayList<>(); try { for (;;) all.add(new byte[1 << 20]); }'
          ' catch (OutOfMemoryError e) { int n = all.size(); all = null; System.out.println(n); } } }')
GO = ('package main\nimport ("fmt"; "runtime")\n'
      'func main() { fmt.Println(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }\n')


class Runtimes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('runtimes'), 'runtimes:latest')
        cls.box = Box(cls.daemon, 'runtimes:latest',
                      resourceLimits={'cpu': '1', 'memory': '512Mi'})

    def upload(self, path, content, mode=644):
        self.assertEqual(self.box.upload(({'path': path, 'mode': mode}, content)).status, 200)

    def java(self, source, *options):
        name = source.split('class ')[1].split()[0]
        with tempfile.TemporaryDirectory() as work:
            pathlib.Path(work, f'{name}.java').write_text(source, encoding='utf-8')
            subprocess.run(['javac', '--release', '17', '-d', work, f'{work}/{name}.java'],
                           check=True)
            self.upload(f'/tmp/{name}.class', pathlib.Path(work, f'{name}.class').read_bytes())
        return self.box.out(' '.join(['java', *options, '-cp', '/tmp', name]))

    def test_jvm(self):
        processors, heap = map(int, self.java(JAVA).split())
        self.assertEqual(processors, 1)
        self.assertLessEqual(heap, 512 * MIB // 4)

    def test_jvm_that_fills_its_heap_is_not_killed(self):
        self.assertGreater(int(self.java(GREEDY, '-XX:MaxRAMPercentage=60')), 128)

    def test_node(self):
        """Debian's libuv reads the mount's root: the sandbox's group, process 1's reserve included."""
        seen = int(self.box.out("node -p 'process.constrainedMemory()'"))
        self.assertIn(seen // MIB, (512, 520))
        self.assertEqual(self.box.out("node -p 'require(\"os\").availableParallelism()'"), '1')

    def test_go(self):
        with tempfile.TemporaryDirectory() as work:
            pathlib.Path(work, 'seen.go').write_text(GO, encoding='utf-8')
            subprocess.run(['go', 'build', '-o', f'{work}/seen', f'{work}/seen.go'], check=True,
                           env={**os.environ, 'CGO_ENABLED': '0', 'GOCACHE': f'{work}/cache'})
            self.upload('/tmp/seen', pathlib.Path(work, 'seen').read_bytes(), 755)
        self.assertEqual(self.box.out('/tmp/seen'), '1 1')

    def test_python_and_nproc(self):
        self.assertEqual(self.box.out('python3 -c "import os; print(len(os.sched_getaffinity(0)))"; '
                                      'nproc'), '1\n1')


if __name__ == '__main__':
    unittest.main()
