"""The released Python code interpreter, over the Python SDK."""
import datetime
import threading

import cases
from cases import IMAGE, case, check, equal

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd_sync import ExecutionHandlersSync

MINUTES = datetime.timedelta(minutes=1)
CONFIG = ConnectionConfigSync(domain=cases.DOMAIN, api_key=cases.KEY,
                              request_timeout=datetime.timedelta(seconds=90))
# As a plotting library shows what it has drawn.
PICTURE = '''
from IPython.display import display
display({'text/plain': 'a picture', 'image/png': 'iVBORw0KGgo='}, raw=True)
'''


class World:
    """The interpreter that all cases share."""
    box = interpreter = None


def out(run):
    check(not run.error, run.error)
    return ''.join(message.text for message in run.logs.stdout).rstrip('\n')


@case('code/create')
def _(world):
    world.box = SandboxSync.create(IMAGE, connection_config=CONFIG, timeout=10 * MINUTES,
                                   resource={'cpu': '2', 'memory': '2Gi'},
                                   entrypoint=['tail', '-f', '/dev/null'], ready_timeout=MINUTES)
    world.interpreter = CodeInterpreterSync.create(world.box)
    check(world.interpreter.is_healthy(), 'the interpreter is not healthy')


@case('code/python_keeps_state')
def _(world):
    run = world.interpreter.codes.run
    equal(out(run("a = 6\nprint('set', a)", language='python')), 'set 6')
    done = run('a * 7', language='python')
    equal([result.text for result in done.result], ['42'])
    check(done.execution_count == 2, done.execution_count)
    equal(out(run('print(a)')), '6')  # without a language: Python's context


@case('code/contexts')
def _(world):
    codes = world.interpreter.codes
    first, second = codes.create_context('python'), codes.create_context('python')
    equal(out(codes.run('b = 1\nprint(b)', context=first)), '1')
    error = codes.run('b', context=second).error
    equal((error.name, error.value), ('NameError', "name 'b' is not defined"))
    check(len(error.traceback) > 1, error.traceback)
    equal(codes.get_context(first.id).language, 'python')
    check({first.id, second.id} <= {c.id for c in codes.list_contexts('python')}, 'not listed')
    codes.delete_context(first.id)
    check(first.id not in {c.id for c in codes.list_contexts('python')}, 'deleted and listed')
    codes.delete_contexts('python')
    equal(codes.list_contexts('python'), [])


@case('code/display')
def _(world):
    done = world.interpreter.codes.run(PICTURE, language='python')
    check(not done.error, done.error)
    equal(done.result[0].text, 'a picture')


@case('code/errors')
def _(world):
    done = world.interpreter.codes.run("import sys\nprint('shown', file=sys.stderr)\n1 / 0",
                                       language='python')
    equal(done.error.name, 'ZeroDivisionError')
    equal(''.join(message.text for message in done.logs.stderr), 'shown\n')


@case('code/streams_while_it_runs')
def _(world):
    """What is printed is seen before the run has ended, which waits for that."""
    seen, codes = threading.Event(), world.interpreter.codes
    context = codes.create_context('python')

    def show(message):
        if 'now' in message.text:
            world.box.files.write_file('/tmp/go', 'on')
            seen.set()
    done = codes.run('import os\nprint("now", flush=True)\n'
                     'while not os.path.exists("/tmp/go"): pass\nprint("then")',
                     context=context, handlers=ExecutionHandlersSync(on_stdout=show))
    check(seen.is_set(), 'not seen')
    equal(out(done), 'now\nthen')


@case('code/interrupt')
def _(world):
    codes = world.interpreter.codes
    context = codes.create_context('python')
    for code in ('print("busy", flush=True)\nwhile True: pass',
                 'import time\nprint("busy", flush=True)\ntime.sleep(600)'):
        done = codes.run(code, context=context, handlers=ExecutionHandlersSync(
            on_stdout=lambda message: codes.interrupt(context.id)))
        equal(done.error.name, 'KeyboardInterrupt')
        equal(out(codes.run('print("next")', context=context)), 'next')
    try:
        codes.interrupt('00000000-0000-4000-8000-000000000000')
    except SandboxApiException as error:
        equal(error.status_code, 500)
    else:
        raise AssertionError('interrupted what is not there')


@case('code/parallel')
def _(world):
    """Each waits for all: one after the other they would never end."""
    codes, seen = world.interpreter.codes, {}
    contexts = [codes.create_context('python') for _ in range(3)]

    def one(number):
        seen[number] = out(codes.run(
            f'import os\nopen("/tmp/here{number}", "w").close()\n'
            'while not all(os.path.exists(f"/tmp/here{n}") for n in range(3)): pass\n'
            f'print({number})', context=contexts[number]))
    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    equal(seen, {0: '0', 1: '1', 2: '2'})


@case('code/bash')
def _(world):
    codes = world.interpreter.codes
    equal(out(codes.run('x=8; echo $((x+9))', language='bash')), '17')
    equal(out(codes.run('echo $x', language='bash')), '8')


@case('code/javascript_and_typescript')
def _(world):
    codes = world.interpreter.codes
    equal(out(codes.run('let list = [1, 2, 3]; console.log(list.map(n => n * n).join())',
                        language='javascript')), '1,4,9')
    equal(out(codes.run('const text: string = "typed"; console.log(text)', language='typescript')),
          'typed')
    check(codes.run('const wrong: number = "text"', language='typescript').error, 'compiled')


@case('code/kill')
def _(world):
    world.interpreter.close()
    world.box.kill()


cases.run_plain(World())
