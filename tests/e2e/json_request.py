"""A request to a server that a test plays, which is answered in JSON."""
import http.server
import json


class JsonRequest(http.server.BaseHTTPRequestHandler):

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass
