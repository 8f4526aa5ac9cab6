"""Runs code in an interpreter that keeps its state, and fetches the picture that it draws.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… plot.py [FOLDER]
"""
import datetime
import os
import pathlib
import sys

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync

CONFIG = ConnectionConfigSync(domain=os.environ['SANDBOX_DOMAIN'],
                              api_key=os.environ.get('SANDBOX_API_KEY', ''))
CELLS = ['''
import numpy, pandas
days = pandas.DataFrame({'day': numpy.arange(30)})
days['visits'] = 100 + 20 * numpy.sin(days.day / 3) + days.day
float(days.visits.mean().round(1))
''', '''
import matplotlib.pyplot as plot
plot.plot(days.day, days.visits)
plot.title('visits a day')
plot.savefig('/tmp/visits.png')
plot.close()
''']


def main(folder):
    box = SandboxSync.create(os.environ.get('SANDBOX_IMAGE', 'kernels'), connection_config=CONFIG,
                             timeout=datetime.timedelta(minutes=5), entrypoint=['sleep', 'infinity'],
                             resource={'cpu': '2', 'memory': '2Gi', 'pids': '256'})
    try:
        interpreter = CodeInterpreterSync.create(box)
        context = interpreter.codes.create_context('python')
        for cell in CELLS:
            done = interpreter.codes.run(cell, context=context)
            if done.error:
                raise RuntimeError(f'{done.error.name}: {done.error.value}')
            for result in done.result:
                print(result.text)
        # As a file: of a result the SDK keeps the text alone, not the picture.
        picture = folder / 'visits.png'
        picture.write_bytes(box.files.read_bytes('/tmp/visits.png'))
        print(picture)
    finally:
        box.kill()
        box.close()


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.'))
