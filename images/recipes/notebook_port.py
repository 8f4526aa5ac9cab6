"""Answers on the port of a Jupyter server, because clients of the image opensandbox/code-interpreter wait for one.

Atoll itself manages code contexts and starts the kernels. A request for more than the server's state is answered with
this explanation.
"""
import json
import os
import socket

# Time after which a silent client is dropped, because others wait meanwhile.
PATIENCE_SECONDS = 1


def answer(head):
    """Returns the response to a request's first bytes."""
    path = (head.split(b' ') + [b'', b''])[1].partition(b'?')[0]
    if path.rstrip(b'/') == b'/api':
        status, body = '200 OK', {'version': '2.0.0'}
    else:
        status, body = '404 Not Found', {'message': 'Atoll runs code contexts without a Jupyter server; see /code of execd'}
    text = json.dumps(body)
    return (f'HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n'
            f'Connection: close\r\n\r\n{text}').encode()


def main():
    with socket.create_server(('127.0.0.1', int(os.environ.get('JUPYTER_PORT') or 44771))) as server:
        while True:
            client, _ = server.accept()
            with client:
                client.settimeout(PATIENCE_SECONDS)
                try:
                    head = client.recv(4096)
                    if head:
                        client.sendall(answer(head))
                except OSError:
                    pass


if __name__ == '__main__':
    main()
