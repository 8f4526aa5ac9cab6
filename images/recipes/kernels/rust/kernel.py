"""Jupyter kernel for Rust. Each run is a complete program, or, without 'fn main', the body of it."""
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ipykernel.kernelapp import IPKernelApp  # pylint: disable=wrong-import-position
from program_kernel import ProgramKernel  # pylint: disable=wrong-import-position


class RustKernel(ProgramKernel):
    banner = 'Rust'
    language_info = {'name': 'rust', 'mimetype': 'text/rust', 'file_extension': '.rs'}

    def build(self, code, directory):
        if not re.search(r'\bfn\s+main\b', code):
            code = 'fn main() { ' + code + '\n}'  # on the first line, so that line numbers do not change
        pathlib.Path(directory, 'run.rs').write_text(code, encoding='utf-8')
        return ['rustc', '--edition', '2021', '-o', 'run', 'run.rs'], f'{directory}/run'


if __name__ == '__main__':
    IPKernelApp.launch_instance(kernel_class=RustKernel)
