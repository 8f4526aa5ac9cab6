"""A stand-in for a language model: what it says is written down beforehand.

    stand_in.py SCRIPT.json [PORT]

It speaks the APIs of Anthropic (messages), OpenAI (responses, chat completions) and Google
(generateContent), streamed or whole. SCRIPT.json is a list of turns {"say": TEXT, "run": COMMAND};
the last one has no command. A turn with a command calls the tool of the client that runs such
things. Which turn it is follows from the results that the client sends along, so the server
remembers nothing and any number of clients can talk to it. A request without such a tool, which
clients make for a title, say, is answered with the last turn.
"""
import http.server
import json
import re
import sys

LARGEST = 64 << 20  # of a request


def shell_of(tools):
    """Of (name, schema of the arguments) the one that runs a command, and what calls it; or None."""
    for name, schema in tools:
        fields = schema.get('properties', {})
        takes = next((one for one in ('command', 'cmd') if one in fields), None)
        if takes and re.search('bash|shell|exec|run', name, re.IGNORECASE):
            return name, takes, [(one, fields.get(one, {}).get('type'))
                                 for one in schema.get('required', []) if one != takes]
    return None


def arguments_of(turn, takes, others):
    """The command, and something of the right kind for what else the tool asks for."""
    filled = {'boolean': False, 'integer': 60, 'number': 60}
    return {takes: turn['run'], **{name: filled.get(kind, turn['say']) for name, kind in others}}


class Anthropic:
    """POST /v1/messages"""

    def __init__(self, body):
        self.model = body.get('model', '')
        self.streams = body.get('stream', False)
        self.tools = [(tool['name'], tool.get('input_schema', {})) for tool in body.get('tools', [])]
        self.results = sum(part.get('type') == 'tool_result' for message in body['messages']
                           if isinstance(message['content'], list) for part in message['content'])

    def answer(self, number, say, call):
        content = [{'type': 'text', 'text': say}]
        if call:
            content.append({'type': 'tool_use', 'id': f'toolu_{number}', 'name': call[0],
                            'input': call[1]})
        return {'id': f'msg_{number}', 'type': 'message', 'role': 'assistant', 'model': self.model,
                'content': content, 'stop_reason': 'tool_use' if call else 'end_turn',
                'stop_sequence': None, 'usage': {'input_tokens': 1, 'output_tokens': 1}}

    def events(self, number, say, call):
        whole = self.answer(number, say, call)
        yield {'type': 'message_start', 'message': {**whole, 'content': [], 'stop_reason': None}}
        for index, part in enumerate(whole['content']):
            if part['type'] == 'text':
                empty, delta = {**part, 'text': ''}, {'type': 'text_delta', 'text': part['text']}
            else:
                empty = {**part, 'input': {}}
                delta = {'type': 'input_json_delta', 'partial_json': json.dumps(part['input'])}
            yield {'type': 'content_block_start', 'index': index, 'content_block': empty}
            yield {'type': 'content_block_delta', 'index': index, 'delta': delta}
            yield {'type': 'content_block_stop', 'index': index}
        yield {'type': 'message_delta', 'usage': whole['usage'],
               'delta': {'stop_reason': whole['stop_reason'], 'stop_sequence': None}}
        yield {'type': 'message_stop'}


class Responses:
    """POST /v1/responses"""

    def __init__(self, body):
        self.model = body.get('model', '')
        self.streams = body.get('stream', False)
        self.tools = [(tool['name'], tool.get('parameters', {})) for tool in body.get('tools', [])
                      if tool.get('type') == 'function']
        given = body['input'] if isinstance(body['input'], list) else []
        self.results = sum(item.get('type') == 'function_call_output' for item in given)

    def answer(self, number, say, call):
        output = [{'type': 'message', 'id': f'msg_{number}', 'role': 'assistant', 'status': 'completed',
                   'content': [{'type': 'output_text', 'text': say, 'annotations': []}]}]
        if call:
            output.append({'type': 'function_call', 'id': f'fc_{number}', 'call_id': f'call_{number}',
                           'name': call[0], 'arguments': json.dumps(call[1]), 'status': 'completed'})
        return {'id': f'resp_{number}', 'object': 'response', 'created_at': 0, 'model': self.model,
                'status': 'completed', 'output': output,
                'usage': {'input_tokens': 1, 'input_tokens_details': {'cached_tokens': 0},
                          'output_tokens': 1, 'output_tokens_details': {'reasoning_tokens': 0},
                          'total_tokens': 2}}

    def events(self, number, say, call):
        whole = self.answer(number, say, call)
        yield {'type': 'response.created',
               'response': {**whole, 'status': 'in_progress', 'output': [], 'usage': None}}
        for index, item in enumerate(whole['output']):
            yield {'type': 'response.output_item.added', 'output_index': index, 'item': item}
            yield {'type': 'response.output_item.done', 'output_index': index, 'item': item}
        yield {'type': 'response.completed', 'response': whole}


class Chat:
    """POST /v1/chat/completions"""

    def __init__(self, body):
        self.model = body.get('model', '')
        self.streams = body.get('stream', False)
        self.tools = [(tool['function']['name'], tool['function'].get('parameters', {}))
                      for tool in body.get('tools') or []]
        self.results = sum(message.get('role') == 'tool' for message in body['messages'])

    def answer(self, number, say, call):
        message = {'role': 'assistant', 'content': say}
        if call:
            message['tool_calls'] = [{'id': f'call_{number}', 'type': 'function', 'function': {
                'name': call[0], 'arguments': json.dumps(call[1])}}]
        return {'id': f'chat_{number}', 'object': 'chat.completion', 'created': 0,
                'model': self.model, 'choices': [{'index': 0, 'message': message,
                                                  'finish_reason': 'tool_calls' if call else 'stop'}],
                'usage': {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}}

    def events(self, number, say, call):
        whole = self.answer(number, say, call)
        choice = whole['choices'][0]
        delta = dict(choice['message'])
        if call:
            delta['tool_calls'] = [{'index': 0, **delta['tool_calls'][0]}]
        for part, finish in ((delta, None), ({}, choice['finish_reason'])):
            yield {**whole, 'object': 'chat.completion.chunk', 'usage': None,
                   'choices': [{'index': 0, 'delta': part, 'finish_reason': finish}]}
        yield {**whole, 'object': 'chat.completion.chunk', 'choices': []}


class Google:
    """POST /v1beta/models/MODEL:generateContent, and :streamGenerateContent"""

    def __init__(self, body):
        self.streams = False  # the path tells
        # Google's own clients differ in how they spell it.
        self.tools = [(tool['name'], next((tool[one] for one in (
            'parametersJsonSchema', 'parameters_json_schema', 'parameters') if tool.get(one)), {}))
                      for part in body.get('tools', []) for tool in part.get('functionDeclarations', [])]
        self.results = sum('functionResponse' in part for message in body['contents']
                           for part in message.get('parts', []))

    def answer(self, _number, say, call):
        parts = [{'text': say}]
        if call:
            parts.append({'functionCall': {'name': call[0], 'args': call[1]}})
        return {'candidates': [{'index': 0, 'finishReason': 'STOP',
                                'content': {'role': 'model', 'parts': parts}}],
                'usageMetadata': {'promptTokenCount': 1, 'candidatesTokenCount': 1,
                                  'totalTokenCount': 2}}

    def events(self, number, say, call):
        yield self.answer(number, say, call)


APIS = {'/messages': Anthropic, '/responses': Responses, '/chat/completions': Chat,
        ':generateContent': Google, ':streamGenerateContent': Google}


class Handler(http.server.BaseHTTPRequestHandler):
    script = ()
    protocol_version = 'HTTP/1.1'
    timeout = 600

    def do_GET(self):
        self.send(json.dumps({'object': 'list', 'data': []}), 'application/json')

    def do_POST(self):
        size = int(self.headers.get('Content-Length', '-1'))
        if not 0 <= size <= LARGEST:
            self.close_connection = True
            self.send_error(413)
            return
        body = json.loads(self.rfile.read(size) or '{}')
        path = self.path.partition('?')[0]
        if path.endswith(('count_tokens', ':countTokens')):
            self.send(json.dumps({'input_tokens': 1, 'totalTokens': 1}), 'application/json')
            return
        kind = next((kind for end, kind in APIS.items() if path.endswith(end)), None)
        if kind is None:
            self.send_error(404)
            return
        api = kind(body)
        shell = shell_of(api.tools)
        number = min(api.results, len(self.script) - 1) if shell else len(self.script) - 1
        turn = self.script[number]
        call = (shell[0], arguments_of(turn, *shell[1:])) if 'run' in turn else None
        if api.streams or 'streamGenerateContent' in path:
            # Google's and OpenAI's clients read no names of events, Anthropic's do.
            text = ''.join((f'event: {event["type"]}\n' if 'type' in event else '') +
                           f'data: {json.dumps(event)}\n\n' for event in api.events(number, turn['say'], call))
            self.send(text + ('data: [DONE]\n\n' if kind is Chat else ''), 'text/event-stream')
        else:
            self.send(json.dumps(api.answer(number, turn['say'], call)), 'application/json')

    def send(self, text, kind):
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def main(script, port):
    with open(script, encoding='utf-8') as file:
        Handler.script = json.load(file)
    http.server.ThreadingHTTPServer(('', port), Handler).serve_forever()


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
