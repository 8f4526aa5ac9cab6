"""bash_kernel with output of any length. Its own search for Bash's prompt begins again at the end of the last line
with each 2,000 bytes that come: a line of 10 MiB took minutes."""
import re

import pexpect
from bash_kernel.kernel import BashKernel, IREPLWrapper
from ipykernel.kernelapp import IPKernelApp

CHUNK = 64 << 10
# A line that is longer is passed on in parts; a prompt, with the name of an environment before it, is shorter.
LONGEST_LINE, LONGEST_PROMPT = 64 << 10, 256

expect_prompt = IREPLWrapper._expect_prompt  # pylint: disable=protected-access


def pass_on(self, timeout=-1):
    """In place of IREPLWrapper._expect_prompt: each character is searched once. 0: the prompt, 1: that of a command
    which is not complete."""
    if timeout is not None:
        return expect_prompt(self, timeout)
    child = self.child
    prompt = re.compile(f'(?P<first>{self.ps1_re})|{self.ps2_re}')
    held, searched = child.buffer, 0
    try:
        while not (found := prompt.search(held, max(0, searched - LONGEST_PROMPT))):
            # Whole lines, and what "\r" is to write over; behind them a prompt may have begun.
            line = max(held.rfind('\n'), held.rfind('\r', 0, -1)) + 1
            end = len(held) - LONGEST_PROMPT
            if not line and end > LONGEST_LINE:
                line = end
            tell(self, held[:line])
            held = held[line:]
            searched = len(held)
            held += child.read_nonblocking(CHUNK, None)
    except BaseException as error:
        keep(child, held)
        if isinstance(error, pexpect.EOF):
            child.before = held
        raise
    tell(self, held[:found.start()])
    keep(child, held[found.end():])
    child.before, child.after = '', found[0]
    return 0 if found['first'] else 1


def tell(self, text):
    text = text.replace('\r\n', '\n')
    lines = max(text.rfind('\n'), text.rfind('\r')) + 1
    if lines:
        self.line_output_callback(text[:lines])
    kernel = self.line_output_callback.__self__
    # Past the search for what stands for a picture, which ends each line.
    if text[lines:] and not kernel.silent:
        kernel.send_response(kernel.iopub_socket, 'stream', {'name': 'stdout', 'text': text[lines:]})


def keep(child, text):
    """What pexpect searches next."""
    for name in ('_buffer', '_before'):
        buffer = child.buffer_type()
        buffer.write(text)
        setattr(child, name, buffer)


IREPLWrapper._expect_prompt = pass_on  # pylint: disable=protected-access

if __name__ == '__main__':
    IPKernelApp.launch_instance(kernel_class=BashKernel)
