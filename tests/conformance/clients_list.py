"""The clients: what is run, with which image, and how the table names them."""
import dataclasses
import os
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get('ATOLL_BUILD', TOP / 'build'))
KIT = BUILD / 'conformance'  # where prepare installs
RESULTS = KIT / 'results'
PROGRAMS = HERE / 'clients'


@dataclasses.dataclass
class Client:
    what: str
    version: str
    command: list
    image: str = 'shell'


def pinned(file):
    """"opensandbox 1.1.1": the package that a file of clients/ pins."""
    text = (PROGRAMS / file).read_text(encoding='utf-8')
    found = re.search(r'([\w.-]*sandbox[\w./-]*)(?:\[\w+\])?'
                      r'(?:": "|==| v|</artifactId>\s*<version>)(\d[\w.]*)', text, re.I)
    return ' '.join(part for part in found.groups() if part)


def python(kit, program, *arguments):
    return [KIT / kit / 'bin/python', PROGRAMS / program, *arguments]


CLIENTS = {
    'python': Client('Python SDK, asynchronous', pinned('python.txt'), python('python', 'python_async.py')),
    'python-sync': Client('Python SDK, synchronous', pinned('python.txt'),
                          python('python', 'python_sync.py')),
    'js': Client('JavaScript SDK', pinned('package.json'), ['node', PROGRAMS / 'client.mjs']),
    'go': Client('Go SDK', pinned('go/go.mod'), [KIT / 'go/client']),
    'java': Client('Kotlin/Java SDK', pinned('java/pom.xml'), [PROGRAMS / 'java/run']),
    # Replayed: see clients/csharp.py.
    'csharp': Client('C# SDK, replayed', 'Alibaba.OpenSandbox 0.1.2', ['/usr/bin/python3', PROGRAMS / 'csharp.py']),
    'code-interpreter': Client('Python code interpreter', pinned('code-interpreter.txt'),
                               python('code-interpreter', 'interpreter.py'), 'kernels'),
    'osb': Client('osb command line', pinned('osb.txt'), python('osb', 'osb.py')),
    'mcp': Client('MCP server', pinned('mcp.txt'), python('mcp', 'mcp_tools.py')),
    'langchain': Client('LangChain back end', pinned('langchain.txt'),
                        python('langchain', 'deep_agents.py', 'langchain'),
                        'python'),
    'langchain-sandbox': Client('LangChain back end', pinned('langchain-sandbox.txt'),
                                python('langchain-sandbox', 'deep_agents.py', 'langchain-sandbox'),
                                'python'),
    'agno': Client('Agno toolkit', pinned('agno.txt'), python('agno', 'agno_tools.py')),
    'hermes': Client('Hermes back end', pinned('hermes.txt'), python('hermes', 'hermes_session.py')),
    'agent-backends': Client('Back end with a history', pinned('agent-backends.txt'),
                             python('agent-backends', 'agent_backends.py'), 'python'),
    'gl-sandbox': Client('gl-sandbox', pinned('gl-sandbox.txt'),
                         python('gl-sandbox', 'gl_sandbox_code.py'), 'kernels'),
    'console': Client('Web console', pinned('console.txt'), python('console', 'console.py'), 'python'),
    'deepagents': Client('Deep Agents back end', pinned('deepagents.txt'),
                         python('deepagents', 'deep_agents.py', 'deepagents'), 'python'),
}
