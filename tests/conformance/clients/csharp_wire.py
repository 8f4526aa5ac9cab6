"""Requests as .NET's HttpClient and System.Text.Json write them, for csharp.py."""
import email.header
import http.client
import json
import re
import urllib.parse
import uuid

import cases


class Refused(Exception):
    def __init__(self, status, answer, request_id):
        super().__init__(f'{status} {answer}')
        self.status, self.answer, self.request_id = status, answer, request_id


def json_text(value):
    """Without null members, as WhenWritingNull has it."""
    if isinstance(value, dict):
        return '{' + ','.join(f'{json_text(key)}:{json_text(member)}' for key, member in value.items()
                              if member is not None) + '}'
    if isinstance(value, list):
        return '[' + ','.join(map(json_text, value)) + ']'
    if not isinstance(value, str):
        return json.dumps(value)
    # JavaScriptEncoder.Default also escapes what a page could be broken with.
    return '"' + re.sub(r'\\"|[&\'+<>`\x7f]', lambda found: f'\\u{ord(found[0][-1]):04X}',
                        json.dumps(value)[1:-1]) + '"'


def escaped(text):
    """Uri.EscapeDataString."""
    return urllib.parse.quote(text, safe='')


def query(**members):
    return '?' + '&'.join(f'{name}={escaped(str(value))}' for name, value in members.items())


def repeated(route, paths):
    return route + '?' + '&'.join(f'path={escaped(path)}' for path in paths)


def form(parts):
    """MultipartFormDataContent of (name, file name, type, bytes): the type first, words unquoted
    where they are tokens, and each name of a file twice."""
    boundary = str(uuid.uuid4())
    text = b''
    for name, file, kind, data in parts:
        told = file if re.fullmatch(r"[\w.!#$&'*+^`|~-]+", file, re.ASCII) else f'"{file}"'
        if not file.isascii():
            told = f'"{email.header.Header(file, "utf-8").encode()}"'
        head = f'Content-Type: {kind}\r\n' if kind else ''
        head += f"Content-Disposition: form-data; name={name}; filename={told}; filename*=utf-8''{escaped(file)}"
        text += f'--{boundary}\r\n{head}\r\n\r\n'.encode() + data + b'\r\n'
    return f'multipart/form-data; boundary="{boundary}"', text + f'--{boundary}--\r\n'.encode()


def events(text):
    """As SseParser reads them: a line is JSON, with "data:" before it or without."""
    for line in text.decode('utf-8').splitlines():
        line = line.strip().removeprefix('data:').strip()
        if line and not line.startswith((':', 'event:', 'id:', 'retry:')):
            yield json.loads(line)


class Wire:
    """HttpClientWrapper: a base address and the headers that go with each request."""

    def __init__(self, base, key=cases.KEY, headers=()):
        host, slash, path = base.partition('/')
        self.base, self.host = slash + path, host
        self.connection = http.client.HTTPConnection(host, timeout=60)
        self.headers = {'User-Agent': 'OpenSandbox-CSharp-SDK/0.1.2', 'OPEN-SANDBOX-API-KEY': key,
                        **dict(headers)}

    def send(self, method, path, body=None, kind='application/json; charset=utf-8', **headers):
        """The answer's bytes, and the answer."""
        self.connection.putrequest(method, self.base + path, skip_host=True, skip_accept_encoding=True)
        sent = {'Host': self.host, **{name.replace('_', '-'): value for name, value in headers.items()},
                **self.headers}
        if body is not None:
            sent |= {'Content-Type': kind, 'Content-Length': str(len(body))}
        elif method in ('POST', 'PATCH'):
            sent['Content-Length'] = '0'
        for header in sent.items():
            self.connection.putheader(*header)
        self.connection.endheaders(body)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            told = json.loads(text)
            raise Refused(answer.status, told, answer.getheader('x-request-id'))
        return text, answer

    def ask(self, method, path, body=None):
        text, _ = self.send(method, path, None if body is None else json_text(body).encode())
        return json.loads(text) if text else None

    def stream(self, path, body):
        text, _ = self.send('POST', path, json_text(body).encode(), Accept='text/event-stream')
        return list(events(text))
