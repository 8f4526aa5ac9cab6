"""Has a coding agent mend a repository in a sandbox that reaches its model and nothing else.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… agent.py [claude|codex|gemini|kimi|openclaw|qwen]

With ANTHROPIC_API_KEY (claude, openclaw), CODEX_API_KEY, GEMINI_API_KEY, MOONSHOT_API_KEY (kimi) or
DASHSCOPE_API_KEY (qwen) in the environment the model is the real service; else a stand-in with written
answers, in a sandbox of its own.
"""
import contextlib
import dataclasses
import datetime
import os
import pathlib
import sys
import uuid

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = ConnectionConfigSync(domain=os.environ['SANDBOX_DOMAIN'],
                              api_key=os.environ.get('SANDBOX_API_KEY', ''),
                              request_timeout=datetime.timedelta(minutes=5))
TASK = 'A test of this repository fails. Mend the code, not the test, and run the tests again.'
STAND_IN = 'http://model:8000'


@dataclasses.dataclass
class Agent:
    command: str  # in which {model} stands for one of the two below
    key: str  # the variable that its key is in
    service: str  # the name of the host where that is good
    stand_in: str
    real: str = ''
    image: str = 'agents'


# Each does what it likes without asking: it is the sandbox that keeps it from doing harm, and their own
# ways of confining what they run need what nobody may do in a sandbox.
AGENTS = {
    'claude': Agent('{model} claude --dangerously-skip-permissions --print "$TASK"', 'ANTHROPIC_API_KEY',
                    'api.anthropic.com', f'ANTHROPIC_BASE_URL={STAND_IN}', image='claude'),
    'codex': Agent('codex exec --dangerously-bypass-approvals-and-sandbox {model} "$TASK"',
                   'CODEX_API_KEY', 'api.openai.com',
                   '-c model=written -c model_provider=stand_in -c model_providers.stand_in.name=written '
                   f'-c model_providers.stand_in.base_url={STAND_IN}/v1 '
                   '-c model_providers.stand_in.env_key=CODEX_API_KEY'),
    # Without the name of a model it asks a model first which one to ask.
    'gemini': Agent('{model} gemini --yolo --skip-trust --prompt "$TASK"', 'GEMINI_API_KEY',
                    'generativelanguage.googleapis.com',
                    f'GOOGLE_GEMINI_BASE_URL={STAND_IN} GEMINI_MODEL=written'),
    'kimi': Agent('{model} KIMI_MODEL_API_KEY="$MOONSHOT_API_KEY" kimi --prompt "$TASK"', 'MOONSHOT_API_KEY',
                  'api.moonshot.ai',
                  f'KIMI_MODEL_PROVIDER_TYPE=openai KIMI_MODEL_NAME=written KIMI_MODEL_BASE_URL={STAND_IN}/v1',
                  'KIMI_MODEL_PROVIDER_TYPE=openai KIMI_MODEL_NAME=kimi-k2-turbo-preview '
                  'KIMI_MODEL_BASE_URL=https://api.moonshot.ai/v1'),
    # Which model, and its working directory, are settings of its own.
    'openclaw': Agent('OPENCLAW_CONFIG_PATH=/tmp/openclaw/{model}.json openclaw agent --local --agent main '
                      '--message "$TASK"', 'ANTHROPIC_API_KEY', 'api.anthropic.com', 'stand_in', 'real', 'openclaw'),
    'qwen': Agent('{model} OPENAI_API_KEY="$DASHSCOPE_API_KEY" qwen --yolo --auth-type openai --prompt "$TASK"',
                  'DASHSCOPE_API_KEY', 'dashscope-intl.aliyuncs.com',
                  f'OPENAI_BASE_URL={STAND_IN}/v1 OPENAI_MODEL=written',
                  'OPENAI_BASE_URL=https://dashscope-intl.aliyuncs.com/compatible-mode/v1 '
                  'OPENAI_MODEL=qwen3-coder-plus'),
}


@contextlib.contextmanager
def sandbox(image, **wanted):
    box = SandboxSync.create(os.environ.get('SANDBOX_IMAGE', image), connection_config=CONFIG,
                             timeout=datetime.timedelta(minutes=15), entrypoint=['sleep', 'infinity'], **wanted)
    try:
        yield box
    finally:
        box.kill()
        box.close()


def run(box, command, **options):
    """What it prints; an error if it fails."""
    done = box.commands.run(command, opts=RunCommandOpts(**options))
    said = ''.join(line.text for line in [*done.logs.stdout, *done.logs.stderr])
    if done.error:
        raise RuntimeError(f'{command.split()[0]} ended with {done.error.value}: {said}')
    return said


def upload(box, folder, target):
    for file in folder.iterdir():
        if file.is_file():
            box.files.write_file(f'{target}/{file.name}', file.read_text(encoding='utf-8'))


def start_model(box):
    upload(box, HERE, '/tmp/model')
    box.commands.run('exec python3 /tmp/model/stand_in.py /tmp/model/script.json',
                     opts=RunCommandOpts(background=True))
    run(box, 'curl --silent --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 30 '
             '--output /dev/null http://127.0.0.1:8000/v1/models')


def work(box, command, env):
    upload(box, HERE / 'repository', '/tmp/repository')
    here = {'working_directory': '/tmp/repository'}
    run(box, 'git init -q && git add . && git -c user.name=a -c user.email=a@example.org commit -qm all', **here)
    print(run(box, f'{command} </dev/null', envs={**env, 'TASK': TASK},
              timeout=datetime.timedelta(minutes=10), **here).strip())
    print(run(box, 'git diff --stat && python3 -m unittest median_test 2>&1', **here).strip())


def main(name):
    agent = AGENTS[name]
    key = os.environ.get(agent.key)
    rules = [NetworkRule(action='allow', target=agent.service)] if key else []
    policy = NetworkPolicy(defaultAction='deny', egress=rules)
    # Who is in one reaches the others of it, whatever the policy says of the rest of the world.
    network = {} if key else {'network': f'agent-{uuid.uuid4().hex[:8]}'}
    with contextlib.ExitStack() as stack:
        if not key:
            start_model(stack.enter_context(sandbox(
                agent.image, network_policy=policy, extensions={**network, 'network.hostname': 'model'})))
        box = stack.enter_context(sandbox(agent.image, network_policy=policy, extensions=network,
                                          resource={'cpu': '2', 'memory': '2Gi', 'pids': '500'}))
        upload(box, HERE / 'openclaw', '/tmp/openclaw')
        work(box, agent.command.format(model=agent.real if key else agent.stand_in),
             {agent.key: key or 'none'})


if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else 'claude')
