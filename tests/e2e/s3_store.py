"""Stores of objects on loopback, as S3 has them: moto of PyPI, which is real, and one of our own, which
compares each signature and does what a test wants, good or bad."""
import email.utils
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.parse

import atoll
import registry
from atoll import SLOWNESS, until

BUCKET = 'bucket'
# Makes a user whose signatures count, and a bucket; run by moto's Python.
SETUP = '''
import boto3, json, sys
endpoint, authority = sys.argv[1:]
client = lambda name, key, secret: boto3.client(name, endpoint_url=endpoint, region_name='us-east-1',
    verify=authority, aws_access_key_id=key, aws_secret_access_key=secret)
iam = client('iam', 'nobody', 'yet')
iam.create_user(UserName='user')
iam.put_user_policy(UserName='user', PolicyName='all', PolicyDocument=json.dumps({
    'Version': '2012-10-17', 'Statement': [{'Effect': 'Allow', 'Action': '*', 'Resource': '*'}]}))
key = iam.create_access_key(UserName='user')['AccessKey']
client('s3', key['AccessKeyId'], key['SecretAccessKey']).create_bucket(Bucket='bucket')
print(json.dumps([key['AccessKeyId'], key['SecretAccessKey']]))
'''


class MotoStore:
    """tests/conformance/prepare s3. Asks for signatures after the three calls of SETUP."""

    def __init__(self, authority):
        python = atoll.BUILD / 'conformance/s3/bin/python'
        self.endpoint = f'https://127.0.0.1:{registry.free_port()}'
        with open(authority.top / 'moto.log', 'wb') as log:
            self.process = subprocess.Popen(
                [python.parent / 'moto_server', '-H', '127.0.0.1', '-p',
                 self.endpoint.rpartition(':')[2], '-c', authority.top / 'server.crt', '-k',
                 authority.top / 'server.key'], stdout=log, stderr=log,
                env={**os.environ, 'INITIAL_NO_AUTH_ACTION_COUNT': '3'})
        until(lambda: b'Running on' in (authority.top / 'moto.log').read_bytes(), 60 * SLOWNESS,
              'moto listens')
        told = subprocess.run([python, '-c', SETUP, self.endpoint, authority.ca], check=True,
                              capture_output=True, text=True).stdout
        self.key, self.secret = json.loads(told)

    def close(self):
        self.process.kill()
        self.process.wait()


def signature(secret, method, target, headers, scope, names, body):
    """As Amazon's documentation has it; `headers` by their names in lower case."""
    path, _, query = target.partition('?')
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    quote = lambda text: urllib.parse.quote(text, safe='-_.~')
    request = '\n'.join([
        method, urllib.parse.quote(urllib.parse.unquote(path), safe='/-_.~'),
        '&'.join(f'{quote(name)}={quote(value)}' for name, value in pairs),
        ''.join(f'{name}:{headers[name].strip()}\n' for name in names.split(';')), names,
        hashlib.sha256(body).hexdigest()])
    text = '\n'.join(['AWS4-HMAC-SHA256', headers['x-amz-date'], scope,
                      hashlib.sha256(request.encode()).hexdigest()])
    key = b'AWS4' + secret.encode()
    for part in scope.split('/'):
        key = hmac.digest(key, part.encode(), 'sha256')
    return hmac.digest(key, text.encode(), 'sha256').hex()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def answer(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.server.store.answer(self, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass

    def give(self, status, content=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)


class OwnStore:
    """`objects` by key. `odd(handler, command, query, body)` answers first, if it likes, and then
    returns true. `heard` is (command, path and query, headers) of each request."""

    def __init__(self, authority):
        self.key, self.secret = 'OUR-KEY', 'our/secret+of=ours'
        self.objects, self.uploads, self.heard = {}, {}, []
        self.odd = lambda handler, query, body: False
        self.server = registry.Server(('127.0.0.1', 0), Handler)
        self.server.store = self
        if authority:
            self.server.socket = authority.context().wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = 'https' if authority else 'http'
        self.endpoint = f'{scheme}://127.0.0.1:{self.server.server_address[1]}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def is_ours(self, handler, body):
        told = re.fullmatch(r'AWS4-HMAC-SHA256 Credential=([^/]+)/(\S+), ?SignedHeaders=(\S+), ?'
                            r'Signature=([0-9a-f]{64})', handler.headers.get('Authorization', ''))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        return (told and told[1] == self.key and {'host', 'x-amz-date'} <= set(told[3].split(';'))
                and headers['x-amz-content-sha256'] == hashlib.sha256(body).hexdigest()
                and told[4] == signature(self.secret, handler.command, handler.path, headers,
                                         told[2], told[3], body))

    def answer(self, handler, body):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.heard.append((handler.command, handler.path, dict(handler.headers)))
        if self.odd(handler, query, body):
            return
        if not self.is_ours(handler, body):
            handler.give(403, b'<Error><Code>SignatureDoesNotMatch</Code></Error>')
            return
        bucket, _, key = urllib.parse.unquote(url.path).lstrip('/').partition('/')
        if bucket != BUCKET:
            handler.give(404, b'<Error><Code>NoSuchBucket</Code><Message>There is none</Message></Error>')
            return
        {'GET': self.get, 'HEAD': self.get, 'PUT': self.put, 'POST': self.post,
         'DELETE': self.delete}[handler.command](handler, key, query, body)

    def get(self, handler, key, _query, _body):
        content = self.objects.get(key)
        if content is None:
            handler.give(404, b'<Error><Code>NoSuchKey</Code></Error>')
            return
        tag = '"%s"' % hashlib.md5(content).hexdigest()
        first = re.fullmatch(r'bytes=(\d+)-', handler.headers.get('Range', ''))
        if handler.headers.get('If-Match', tag) != tag:
            handler.give(412, b'<Error><Code>PreconditionFailed</Code></Error>')
        elif first:
            handler.give(206, content[int(first[1]):], ETag=tag)
        else:
            handler.give(200, content, ETag=tag, Date=email.utils.formatdate(usegmt=True))

    def put(self, handler, key, query, body):
        if 'uploadId' in query:
            self.uploads[query['uploadId']][int(query['partNumber'])] = body
        else:
            self.objects[key] = body
        handler.give(200, ETag='"%s"' % hashlib.md5(body).hexdigest())

    def post(self, handler, key, query, body):
        if 'uploads' in query:
            upload = f'{len(self.heard)}/+='
            self.uploads[upload] = {}
            handler.give(200, f'<X><UploadId>{upload}</UploadId></X>'.encode())
            return
        parts = self.uploads.pop(query['uploadId'])
        told = re.findall(rb'<PartNumber>(\d+)</PartNumber><ETag>"(\w+)"</ETag>', body)
        assert [(int(number), tag.decode()) for number, tag in told] == [
            (number, hashlib.md5(part).hexdigest()) for number, part in sorted(parts.items())]
        self.objects[key] = b''.join(part for _, part in sorted(parts.items()))
        handler.give(200, b'<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>')

    def delete(self, handler, _key, query, _body):
        del self.uploads[query['uploadId']]
        handler.give(204)


def the_store(authority):
    """moto if ATOLL_S3 says so."""
    return MotoStore(authority) if os.environ.get('ATOLL_S3') == 'moto' else OwnStore(authority)
