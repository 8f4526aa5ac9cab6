"""The group "template": what is started ahead, beside the same that is started when it is asked for."""
import concurrent.futures
import time

import driver
import atoll  # pylint: disable=wrong-import-order
import swap_area  # pylint: disable=wrong-import-order

ROUNDS = 30
CHILDREN = 10
ROWS = [driver.row('command', 'create of a template → end of the first command in it, of busybox', 'ms',
                   {'at_most': 1.2, 'over': 'template/command, cold'}),
        driver.row('command, cold', 'the same of a create that names the image', 'ms'),
        driver.row('first print(1)', 'create of a template with a kernel of Python → the end of the first run '
                   'in it', 'ms', {'at_most': 100}),
        driver.row('context', 'the same to a new context that is ready', 'ms'),
        driver.row('pandas', f'{CHILDREN} creates at once of a template that has imported pandas and gave its memory back → '
                   'the last one\'s first sum', 'ms', {'at_most': 60}),
        driver.row('pandas, before work', 'what each of them is charged for until then', 'MiB', {'at_most': 3}),
        driver.row('pandas, kept', 'the same creates where their memory was kept', 'ms'),
        driver.row('pandas, cold', 'one create that names the image → the same sum by a new interpreter', 'ms')]
# Sums for each who connects.
SUMS = """
import gc, http.server, pandas
gc.collect(); gc.freeze()  # else the collector touches every object
class Sums(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(b"%d" % pandas.DataFrame({"a": range(1000)})["a"].sum())
    def log_message(self, *_): pass
http.server.HTTPServer(("", 8000), Sums).serve_forever()
"""
SUM = '499500'
LIMITS = {'cpu': '2', 'memory': '1Gi'}


def milliseconds(what):
    began = time.perf_counter()
    result = what()
    return (time.perf_counter() - began) * 1e3, result


def make(daemon, **fields):
    body = {'entrypoint': ['sleep', '100000'], 'stock': 2, **fields}
    return daemon.request('POST', '/v1/templates', body)['templateId']


def rested(daemon, template, stock=2):
    atoll.until(lambda: daemon.request('GET', f'/v1/templates/{template}')['status']['ready'] == stock, 120,
                'its stock is there')


def claim(daemon, template):
    return daemon.request('POST', '/v1/sandboxes', {'templateId': template, 'timeout': 600})['id']


def command(daemon, create):
    box = create()
    assert daemon.run(box, 'echo hi').stdout == 'hi'
    return box


def ran(daemon, text, said):
    box = daemon.create('kernels:1', resourceLimits=LIMITS)
    assert daemon.run(box, text).stdout == said
    return box


def code(daemon, template, path, body):
    box = claim(daemon, template)
    answer = daemon.send('POST', f'/sandboxes/{box}/proxy/44772{path}', body, daemon.execd_headers(box))
    text = answer.read()
    assert answer.status == 200 and b'"error"' not in text, text
    return box


def charged(daemon):
    """For each slot whose program has given its memory back: MiB of the host's."""
    slots = [swap_area.Group(path) for path in swap_area.groups(f'atoll{daemon.instance()}').iterdir() if path.is_dir()]
    return [slot.resident() / swap_area.MIB for slot in slots if slot.swapped() > 0]


def given_back(daemon, pauses):
    told = f'atoll_reclaims_total{{result="ok"}} {pauses}'
    atoll.until(lambda: told in daemon.send('GET', '/metrics').read().decode().splitlines(), 120, told)


def first_sum(daemon, template):
    box = claim(daemon, template)
    answer = daemon.send('GET', f'/sandboxes/{box}/proxy/8000/')
    assert answer.status == 200 and answer.read().decode() == SUM
    return box


def pandas(take, daemon, name):
    daemon.import_image(atoll.image_archive('kernels'), 'kernels:1')
    template = make(daemon, image='kernels:1', entrypoint=['python3', '-c', SUMS], resourceLimits=LIMITS,
                    env={'OPENBLAS_NUM_THREADS': '1'}, readiness={'probe': 'tcp://127.0.0.1:8000'}, stock=CHILDREN)
    with concurrent.futures.ThreadPoolExecutor(CHILDREN) as clients:
        for done in range(take.samples or ROUNDS // 3):
            rested(daemon, template, CHILDREN)
            if name == 'pandas':
                given_back(daemon, CHILDREN * (done + 1))
                take.add('pandas, before work', *charged(daemon))
            took, boxes = milliseconds(
                lambda: list(clients.map(lambda _: first_sum(daemon, template), range(CHILDREN))))
            take.add(name, took)
            for box in boxes:
                daemon.delete(box)
    daemon.request('DELETE', f'/v1/templates/{template}')


def cold(take, daemon):
    code = 'import pandas; print(pandas.DataFrame({"a": range(1000)})["a"].sum())'
    for _ in range(take.samples or ROUNDS // 3):
        took, box = milliseconds(lambda: ran(daemon, f"python3 -c '{code}'", SUM))
        take.add('pandas, cold', took)
        daemon.delete(box)


def measure(take):
    if take.wants('pandas', 'pandas, before work'):
        with atoll.Daemon(**swap_area.settings('4Gi')) as daemon:
            pandas(take, daemon, 'pandas')
    if take.wants('pandas, kept', 'pandas, cold'):
        with atoll.Daemon(runtime_overcommit=0) as daemon:
            pandas(take, daemon, 'pandas, kept')
            cold(take, daemon)
    if not take.wants('command', 'command, cold', 'first print(1)', 'context'):
        return
    with atoll.Daemon(runtime_overcommit=0) as daemon:
        if take.wants('command', 'command, cold'):
            image = daemon.import_busybox()
            template = make(daemon, image=image)
            for _ in range(take.samples or ROUNDS):
                rested(daemon, template)
                for name, create in (('command', lambda: claim(daemon, template)),
                                     ('command, cold', lambda: daemon.create(image))):
                    took, box = milliseconds(lambda create=create: command(daemon, create))
                    take.add(name, took)
                    daemon.delete(box)
            daemon.request('DELETE', f'/v1/templates/{template}')
        if not take.wants('first print(1)', 'context'):
            return
        daemon.import_image(atoll.image_archive('kernels'), 'kernels:1')
        template = make(daemon, image='kernels:1', resourceLimits=LIMITS,
                        warmup={'kernel': 'python'})
        for _ in range(take.samples or ROUNDS):
            for name, path, body in (
                    ('first print(1)', '/code', {'code': 'print(1)', 'context': {'language': 'python'}}),
                    ('context', '/code/context', {'language': 'python'})):
                rested(daemon, template)
                took, box = milliseconds(lambda path=path, body=body: code(daemon, template, path, body))
                take.add(name, took)
                daemon.delete(box)


if __name__ == '__main__':
    driver.Take('template', lambda _: ROWS).run(measure)
