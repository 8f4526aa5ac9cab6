"""Jupyter kernel for Go. Each run is a complete program; 'package main' may be omitted. A run can import the standard
library and modules that 'go get' has added to the kernel's go.mod, but not files of other runs.
"""
import os
import pathlib
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ipykernel.kernelapp import IPKernelApp  # pylint: disable=wrong-import-position
from program_kernel import ProgramKernel  # pylint: disable=wrong-import-position

COMMENTS = r'(\s|//[^\n]*\n|/\*.*?\*/)*'


class GoKernel(ProgramKernel):
    banner = 'Go'
    language_info = {'name': 'go', 'mimetype': 'text/x-go', 'file_extension': '.go'}

    def build(self, code, directory):
        source = pathlib.Path(directory)
        if not (source / 'go.mod').exists():
            (source / 'go.mod').write_text('module run\n', encoding='ascii')
        if not re.match(COMMENTS + r'package\b', code, re.DOTALL):
            code = 'package main; ' + code  # on the first line, so that line numbers do not change
        (source / 'run.go').write_text(code, encoding='utf-8')
        return ['go', 'build', '-o', 'run', '.'], f'{directory}/run'


if __name__ == '__main__':
    IPKernelApp.launch_instance(kernel_class=GoKernel)
