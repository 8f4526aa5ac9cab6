"""Stores of objects on loopback, as S3 has them: moto of PyPI and versitygw of the Go proxy, which are
real, and one of our own, which compares each signature and does what a test wants, good or bad."""
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
import time
import urllib.parse
import xml.sax.saxutils

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


class VersityStore:
    """tests/conformance/prepare versitygw. Its objects are files, which one can look at."""

    def __init__(self, authority, top):
        self.key, self.secret = 'THEIR-KEY', 'their/secret+of=theirs'
        self.endpoint = f'http{"s" if authority else ""}://127.0.0.1:{registry.free_port()}'
        self.log = top / 'versitygw.log'
        self.files = top / 'versitygw' / BUCKET
        self.files.mkdir(parents=True)
        sidecar = top / 'sidecar'
        sidecar.mkdir()
        tls = ['--cert', authority.top / 'server.crt', '--key',
               authority.top / 'server.key'] if authority else []
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                [atoll.BUILD / 'conformance/versitygw/versitygw', '--access', self.key, '--secret',
                 self.secret, '--port', self.endpoint.partition('//')[2], *tls, 'posix', '--sidecar', sidecar,
                 self.files.parent], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: self.endpoint.partition('//')[2].encode() in self.log.read_bytes(),
              60 * SLOWNESS, 'versitygw listens')

    def put(self, key, content):
        path = self.files / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def content(self, key):
        path = self.files / key
        return path.read_bytes() if path.is_file() else None

    def keys(self):
        return {str(path.relative_to(self.files)) for path in self.files.rglob('*')
                if path.is_file() and '.sgwtmp' not in path.parts}

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
    """`objects` by key, and `headers` that came with them. `odd(handler, command, query, body)` answers
    first, if it likes, and then returns true. `heard` is (command, path and query, headers) of each request."""

    def __init__(self, authority):
        self.key, self.secret = 'OUR-KEY', 'our/secret+of=ours'
        self.headers, self.changed = {}, {}
        self.upload_id = '{}/+='  # of the how many-eth request
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
        path = urllib.parse.unquote(url.path)
        if handler.headers.get('Host', '').startswith(BUCKET + '.'):
            path = f'/{BUCKET}{path}'
        bucket, _, key = path.lstrip('/').partition('/')
        if bucket != BUCKET:
            handler.give(404, b'<Error><Code>NoSuchBucket</Code><Message>There is none</Message></Error>')
            return
        {'GET': self.get, 'HEAD': self.get, 'PUT': self.take, 'POST': self.post,
         'DELETE': self.delete}[handler.command](handler, key, query, body)

    def put(self, key, content, headers=()):
        self.objects[key] = content
        self.headers[key] = dict(headers)
        self.changed[key] = time.time()

    def content(self, key):
        return self.objects.get(key)

    def keys(self):
        return {key for key in self.objects if not key.endswith('/')}

    def list(self, handler, query):
        """Version 1 of it, whole."""
        prefix, delimiter = query.get('prefix', ''), query.get('delimiter', '')
        escape = xml.sax.saxutils.escape
        entries, common = [], set()
        for key in sorted(key for key in self.objects if key.startswith(prefix)):
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                common.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            when = time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(self.changed.get(key, 0)))
            entries.append(f'<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>'
                           f'<ETag>"x"</ETag><Size>{len(self.objects[key])}</Size></Contents>')
        entries += [f'<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>'
                    for each in sorted(common)]
        handler.give(200, ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult '
                           'xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                           f'<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>1000'
                           '</MaxKeys><IsTruncated>false</IsTruncated>' + ''.join(entries) +
                           '</ListBucketResult>').encode(), Content_Type='application/xml')

    def get(self, handler, key, query, _body):
        if not key:
            self.list(handler, query)
            return
        content = self.objects.get(key)
        if content is None:
            handler.give(404, b'<Error><Code>NoSuchKey</Code></Error>')
            return
        tag = '"%s"' % hashlib.md5(content).hexdigest()
        wanted = re.fullmatch(r'bytes=(\d+)-(\d*)', handler.headers.get('Range', ''))
        more = {'ETag': tag, 'Last-Modified': email.utils.formatdate(
            self.changed.get(key, 0), usegmt=True), **self.headers.get(key, {})}
        if handler.headers.get('If-Match', tag) != tag:
            handler.give(412, b'<Error><Code>PreconditionFailed</Code></Error>')
        elif wanted:
            end = int(wanted[2]) + 1 if wanted[2] else len(content)
            handler.give(206, content[int(wanted[1]):end], **more)
        else:
            handler.give(200, content, Date=email.utils.formatdate(usegmt=True), **more)

    def take(self, handler, key, query, body):
        headers = {name: value for name, value in handler.headers.items()
                   if name.lower().startswith('x-amz-meta-') or name.lower() == 'content-type'}
        source = urllib.parse.unquote(handler.headers.get('x-amz-copy-source', ''))
        if source:
            key_of_source = source.lstrip('/').partition('/')[2]
            self.put(key, self.objects[key_of_source], headers)
            handler.give(200, b'<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>')
            return
        if 'uploadId' in query:
            self.uploads[query['uploadId']][int(query['partNumber'])] = body
        else:
            self.put(key, body, headers)
        handler.give(200, ETag='"%s"' % hashlib.md5(body).hexdigest())

    def post(self, handler, key, query, body):
        if 'uploads' in query:
            upload = self.upload_id.format(len(self.heard))
            self.uploads[upload] = {}
            handler.give(200, f'<X><UploadId>{upload}</UploadId></X>'.encode())
            return
        parts = self.uploads.pop(query['uploadId'])
        told = re.findall(rb'<PartNumber>(\d+)</PartNumber>\s*<ETag>"(\w+)"</ETag>', body)
        assert [(int(number), tag.decode()) for number, tag in told] == [
            (number, hashlib.md5(part).hexdigest()) for number, part in sorted(parts.items())]
        self.objects[key] = b''.join(part for _, part in sorted(parts.items()))
        handler.give(200, b'<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>')

    def delete(self, handler, key, query, _body):
        if 'uploadId' in query:
            del self.uploads[query['uploadId']]
        else:
            self.objects.pop(key, None)
        handler.give(204)


def the_store(authority):
    """moto if ATOLL_S3 says so."""
    return MotoStore(authority) if os.environ.get('ATOLL_S3') == 'moto' else OwnStore(authority)
