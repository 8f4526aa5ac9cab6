"""The group "template": what is started ahead, beside the same that is started when it is asked for."""
import time

import driver
import atoll  # pylint: disable=wrong-import-order

ROUNDS = 30
ROWS = [driver.row('command', 'create of a template → end of the first command in it, of busybox', 'ms',
                   {'at_most': 1.2, 'over': 'template/command, cold'}),
        driver.row('command, cold', 'the same of a create that names the image', 'ms'),
        driver.row('first print(1)', 'create of a template with a kernel of Python → the end of the first run '
                   'in it', 'ms', {'at_most': 100}),
        driver.row('context', 'the same to a new context that is ready', 'ms')]


def milliseconds(what):
    began = time.perf_counter()
    result = what()
    return (time.perf_counter() - began) * 1e3, result


def make(daemon, **fields):
    body = {'entrypoint': ['sleep', '100000'], 'stock': 2, **fields}
    return daemon.request('POST', '/v1/templates', body)['templateId']


def rested(daemon, template):
    atoll.until(lambda: daemon.request('GET', f'/v1/templates/{template}')['status']['ready'] == 2, 120,
                'its stock is there')


def claim(daemon, template):
    return daemon.request('POST', '/v1/sandboxes', {'templateId': template, 'timeout': 600})['id']


def command(daemon, create):
    box = create()
    assert daemon.run(box, 'echo hi').stdout == 'hi'
    return box


def code(daemon, template, path, body):
    box = claim(daemon, template)
    answer = daemon.send('POST', f'/sandboxes/{box}/proxy/44772{path}', body, daemon.execd_headers(box))
    text = answer.read()
    assert answer.status == 200 and b'"error"' not in text, text
    return box


def measure(take):
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
        template = make(daemon, image='kernels:1', resourceLimits={'cpu': '2', 'memory': '1Gi'},
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
