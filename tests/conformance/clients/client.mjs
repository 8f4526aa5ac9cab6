// The released JavaScript SDK.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

// The packages are in the build folder, where node does not look from here.
const require = createRequire(pathToFileURL(`${process.env.CONFORMANCE_KIT}/js/`));
const { ConnectionConfig, Sandbox, SandboxApiException, SandboxManager } =
  require("@alibaba-group/opensandbox");

const { CONFORMANCE_DOMAIN: domain, CONFORMANCE_KEY: apiKey, CONFORMANCE_IMAGE: image } =
  process.env;
const connectionConfig = new ConnectionConfig({ domain, apiKey });
const tag = `js-${process.pid}`;
let box;

const create = (options = {}) =>
  Sandbox.create({ connectionConfig, image, timeoutSeconds: 600, ...options });
const manager = () => SandboxManager.create({ connectionConfig });

async function out(sandbox, command, options) {
  const done = await sandbox.commands.run(command, options);
  assert.equal(done.exitCode, 0);
  return done.logs.stdout.map((message) => message.text).join("").replace(/\n$/, "");
}

async function refusal(doing, status) {
  try {
    await doing;
  } catch (error) {
    assert(error instanceof SandboxApiException, String(error));
    assert.equal(error.statusCode, status);
    return error;
  }
  assert.fail(`done, where ${status} was expected`);
}

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

// The fake internet has two web servers, which say what they were asked for.
const networkPolicy = {
  defaultAction: "deny",
  egress: [{ action: "allow", target: "good.example" }],
};
// Of what the image has, nothing more comfortable can resolve names: static glibc.
const fetchScript = String.raw`a=$(nslookup -type=a NAME | awk '/^Name/ {n = 1} /^Address/ && n {print $2}')
[ -n "$a" ] && printf 'GET / HTTP/1.1\r\nHost: NAME\r\nConnection: close\r\n\r\n' | nc -w 5 "$a" 80 || true`;

async function reached(sandbox) {
  const names = [];
  for (const name of ["good.example", "evil.example"]) {
    const text = await out(sandbox, fetchScript.replaceAll("NAME", name));
    if (text.includes(`"host": "${name}"`)) names.push(name);
  }
  return names;
}

// What can be done with the policy of a running sandbox, and that it is what is enforced.
async function changePolicy(sandbox) {
  try {
    assert.deepEqual(await sandbox.getEgressPolicy(), networkPolicy);
    assert.deepEqual(await reached(sandbox), ["good.example"]);
    await sandbox.patchEgressRules([{ action: "allow", target: "evil.example" }]);
    assert.deepEqual(await reached(sandbox), ["good.example", "evil.example"]);
    await sandbox.deleteEgressRules(["good.example"]);
    assert.deepEqual(await reached(sandbox), ["evil.example"]);
  } finally {
    await sandbox.kill();
  }
}

const cases = {
  "lifecycle/create_with_all_options": async () => {
    box = await create({
      env: { GREETING: "hello there" },
      metadata: { suite: tag },
      resource: { cpu: "500m", memory: "256Mi" },
      entrypoint: ["tail", "-f", "/dev/null"],
      platform: { os: "linux", arch: "amd64" },
    });
    assert.equal(await out(box, "echo $GREETING"), "hello there");
  },
  "lifecycle/get": async () => {
    const info = await box.getInfo();
    assert.equal(info.status.state, "Running");
    assert.deepEqual(info.entrypoint, ["tail", "-f", "/dev/null"]);
    assert.deepEqual(info.metadata, { suite: tag });
    const minutes = (info.expiresAt - info.createdAt) / 60000;
    assert(minutes > 9 && minutes <= 10, `lives for ${minutes} minutes`);
  },
  "lifecycle/connect": async () => {
    const again = await Sandbox.connect({ sandboxId: box.id, connectionConfig });
    assert.equal(await out(again, "echo again"), "again");
  },
  "lifecycle/health": async () => assert.equal(await box.isHealthy(), true),
  "lifecycle/renew": async () => {
    const renewed = await box.renew(1800);
    assert.deepEqual((await box.getInfo()).expiresAt, renewed.expiresAt);
  },
  "lifecycle/manual_cleanup": async () => {
    const manual = await create({ timeoutSeconds: null });
    try {
      assert.equal((await manual.getInfo()).expiresAt, null);
    } finally {
      await manual.kill();
    }
  },
  "lifecycle/patch_metadata": async () => {
    assert.deepEqual((await box.patchMetadata({ a: "1" })).metadata, { suite: tag, a: "1" });
    assert.deepEqual((await box.patchMetadata({ a: null })).metadata, { suite: tag });
  },
  "lifecycle/pause_and_resume": async () => {
    let paused = await create();
    try {
      await paused.pause();
      assert.equal((await paused.getInfo()).status.state, "Paused");
      paused = await paused.resume();
      assert.equal(await out(paused, "echo awake"), "awake");
    } finally {
      await paused.kill();
    }
  },
  "command/foreground": async () => {
    const done = await box.commands.run("echo out; echo err >&2; exit 7");
    assert.deepEqual(done.logs.stdout.map((m) => m.text), ["out\n"]);
    assert.deepEqual(done.logs.stderr.map((m) => m.text), ["err\n"]);
    assert.equal(done.exitCode, 7);
  },
  "command/streamed": async () => {
    const seen = [];
    await box.commands.run(
      "echo first; until [ -s /tmp/go ]; do sleep 0.01; done; cat /tmp/go", undefined, {
        onStdout: async (message) => {
          seen.push(message.text);
          if (message.text === "first\n") {
            await box.files.writeFiles([{ path: "/tmp/go", data: "second\n", mode: 644 }]);
          }
        },
      });
    assert.deepEqual(seen, ["first\n", "second\n"]);
  },
  "command/options": async () => {
    const options = { workingDirectory: "/opt", envs: { A: "b c" }, uid: 1000, gid: 1000 };
    assert.equal(await out(box, "pwd; echo $A; id -u", options), "/opt\nb c\n1000");
  },
  "command/timeout": async () => {
    const done = await box.commands.run("sleep 60", { timeoutSeconds: 1 });
    assert(done.error, "no error is told");
  },
  "command/background": async () => {
    const done = await box.commands.run("echo one; sleep 100", { background: true });
    while (!(await box.commands.getBackgroundCommandLogs(done.id)).content.includes("one"));
    assert.equal((await box.commands.getCommandStatus(done.id)).running, true);
    await box.commands.interrupt(done.id);
    while ((await box.commands.getCommandStatus(done.id)).running);
  },
  "command/session": async () => {
    const session = await box.commands.createSession({ workingDirectory: "/opt" });
    await box.commands.runInSession(session, "export KEPT=yes");
    const done = await box.commands.runInSession(session, "echo $KEPT; pwd");
    assert.deepEqual(done.logs.stdout.map((m) => m.text), ["yes", "/opt"]);
    await box.commands.deleteSession(session);
  },
  "command/metrics": async () => {
    const metrics = await box.getMetrics();
    assert.equal(metrics.memoryTotalMiB, 256);
    assert(metrics.cpuUsedPercentage >= 0 && metrics.cpuUsedPercentage <= 100);
  },
  "files/write_and_read": async () => {
    const data = Buffer.alloc(3 << 20, "0123456789");
    await box.files.createDirectories([{ path: "/tmp/d", mode: 755 }]);
    await box.files.writeFiles([
      { path: "/tmp/d/a", data, mode: 640, owner: "nobody", group: "nogroup" },
      { path: "/tmp/d/b", data: "x y x", mode: 644 },
    ]);
    assert(data.equals(Buffer.from(await box.files.readBytes("/tmp/d/a"))));
    assert(data.equals(await collect(box.files.readBytesStream("/tmp/d/a"))));
    assert.equal(await box.files.readFile("/tmp/d/a", { range: "bytes=8-12" }), "89012");
  },
  "files/streamed_upload": async () => {
    async function* parts() {
      for (let i = 0; i < 40; ++i) yield Buffer.alloc(65536, String(i % 10));
    }
    await box.files.writeFiles([{ path: "/tmp/d/s", data: parts(), mode: 644 }]);
    assert.equal((await box.files.getFileInfo(["/tmp/d/s"]))["/tmp/d/s"].size, 40 * 65536);
    await box.files.deleteFiles(["/tmp/d/s"]);
  },
  "files/info_search_list": async () => {
    const info = (await box.files.getFileInfo(["/tmp/d/a"]))["/tmp/d/a"];
    assert.deepEqual([info.mode, info.owner, info.group, info.size],
                     [640, "nobody", "nogroup", 3 << 20]);
    const found = await box.files.search({ path: "/tmp/d", pattern: "b" });
    assert.deepEqual(found.map((entry) => entry.path), ["/tmp/d/b"]);
    assert.equal((await box.files.listDirectory({ path: "/tmp/d" })).length, 2);
  },
  "files/change": async () => {
    await box.files.setPermissions([{ path: "/tmp/d/b", mode: 600, owner: "dev" }]);
    assert.equal(await out(box, 'stat -c "%a %U" /tmp/d/b'), "600 dev");
    const [result] = await box.files.replaceContentsDetailed([
      { path: "/tmp/d/b", oldContent: "x", newContent: "z" },
    ]);
    assert.equal(result.replacedCount, 2);
    await box.files.moveFiles([{ src: "/tmp/d/b", dest: "/tmp/d/c" }]);
    assert.equal(await box.files.readFile("/tmp/d/c"), "z y z");
    await box.files.deleteFiles(["/tmp/d/c"]);
    await box.files.deleteDirectories(["/tmp/d"]);
    await refusal(box.files.readFile("/tmp/d/a"), 404);
  },
  "endpoint/direct": async () => {
    await box.commands.run("httpd -p 8000 -h /srv");
    const { endpoint, headers } = await box.getEndpoint(8000);
    const page = await (await fetch(`http://${endpoint}/cgi-bin/show?q=1`, { headers })).text();
    assert.equal(page.split("\n")[0], "GET /cgi-bin/show?q=1");
  },
  "endpoint/server_proxy": async () => {
    const proxied = new ConnectionConfig({ domain, apiKey, useServerProxy: true });
    const again = await Sandbox.connect({ sandboxId: box.id, connectionConfig: proxied });
    assert.equal(await out(again, "echo proxied"), "proxied");
    const { endpoint } = await again.getEndpoint(8000);
    assert(endpoint.endsWith(`/sandboxes/${box.id}/proxy/8000`), endpoint);
  },
  "volumes/named": async () => {
    const volumes = [{ name: "data", pvc: { claimName: `conformance-${process.pid}` },
                       mountPath: "/mnt/data" }];
    for (const [command, expected] of [["echo kept >/mnt/data/x", ""],
                                       ["cat /mnt/data/x", "kept"]]) {
      const mounted = await create({ volumes });
      try {
        assert.equal(await out(mounted, command), expected);
      } finally {
        await mounted.kill();
      }
    }
  },
  "manager/list": async () => {
    const listed = await manager().listSandboxInfos({ states: ["Running"],
                                                      metadata: { suite: tag } });
    assert.deepEqual(listed.items.map((item) => item.id), [box.id]);
    assert.equal(listed.pagination.totalItems, 1);
  },
  "manager/get_renew_kill": async () => {
    const other = await create();
    assert.equal((await manager().getSandboxInfo(other.id)).id, other.id);
    await manager().renewSandbox(other.id, 1200);
    await manager().killSandbox(other.id);
    await refusal(manager().getSandboxInfo(other.id), 404);
  },
  "network/policy": async () => changePolicy(await create({ networkPolicy })),
  "network/policy_through_the_server": async () => {
    const proxied = new ConnectionConfig({ domain, apiKey, useServerProxy: true });
    await changePolicy(await create({ networkPolicy, connectionConfig: proxied }));
  },
  "network/credential_vault": async () => {
    const sandbox = await create({ networkPolicy, credentialProxy: { enabled: true } });
    const asked = fetchScript.replaceAll("NAME", "good.example");
    const vault = sandbox.credentialVault;
    try {
      const made = await vault.create({
        credentials: [{ name: "key", source: { type: "inline", value: "sk-one" } }],
        bindings: [
          {
            name: "api",
            match: { hosts: ["good.example"], schemes: ["http"] },
            auth: { type: "bearer", credential: "key" },
          },
        ],
      });
      assert.equal(made.revision, 1);
      assert((await out(sandbox, asked)).includes('"Bearer sk-one"'));
      const changed = await vault.patch({
        expectedRevision: 1,
        credentials: { replace: [{ name: "key", source: { type: "inline", value: "sk-two" } }] },
      });
      assert.equal(changed.revision, 2);
      assert((await out(sandbox, asked)).includes('"Bearer sk-two"'));
      assert.equal((await vault.get()).revision, 2);
      assert.equal((await vault.listCredentials())[0].revision, 2);
      assert.equal((await vault.getCredential("key")).sourceType, "inline");
      assert.equal((await vault.listBindings())[0].name, "api");
      assert.equal((await vault.getBinding("api")).auth.type, "bearer");
      await vault.delete();
      assert(!(await out(sandbox, asked)).includes("Bearer"));
    } finally {
      await sandbox.kill();
    }
  },
  "isolated/session": async () => {
    assert.equal((await box.isolation.capabilities()).available, true);
    await out(box, "mkdir -p /srv/iso");
    const workspace = { path: "/srv/iso" };
    await box.isolation.withSession({ workspace }, async (session) => {
      const failed = await session.run("echo theirs >new; (exit 3)");
      assert.equal(failed.error.value, "3");
      const again = await box.isolation.attach(session.sessionId);
      assert.equal(await again.files.readFile("/srv/iso/new"), "theirs\n");
      assert.equal((await session.get()).status, "active");
      assert.deepEqual((await box.isolation.list()).map((one) => one.session_id), [session.sessionId]);
      // What it writes it has alone.
      assert.equal(await out(box, "ls /srv/iso | grep -v execd; true"), "");
    });
    const once = await box.isolation.runOnce("echo $PPID; pwd", "/srv/iso");
    assert.match(once.logs.stdout.map((message) => message.text).join(""), /\/srv\/iso/);
    assert.deepEqual(await box.isolation.list(), []);
  },
  "snapshots/taken_and_restored": async () => {
    await box.files.writeFiles([{ path: "/snapped.txt", data: "as it was" }]);
    const all = manager();
    const taken = await all.createSnapshot(box.id, { name: tag });
    assert.deepEqual([taken.sandboxId, taken.name], [box.id, tag]);
    let found = await all.getSnapshot(taken.id);
    while (found.status.state === "Creating") found = await all.getSnapshot(taken.id);
    assert.equal(found.status.state, "Ready");
    await box.files.writeFiles([{ path: "/snapped.txt", data: "later" }]);
    const copy = await Sandbox.create({ connectionConfig, snapshotId: taken.id, timeoutSeconds: 600 });
    try {
      assert.equal(await out(copy, "cat /snapped.txt"), "as it was");
      const listed = await all.listSnapshots({ sandboxId: box.id, name: tag, states: ["Ready"] });
      assert.deepEqual(listed.items.map((one) => one.id), [taken.id]);
      await refusal(all.deleteSnapshot(taken.id), 409);
    } finally {
      await copy.kill();
    }
    await all.deleteSnapshot(taken.id);
    await refusal(all.getSnapshot(taken.id), 404);
  },
  "network/no_policy": async () =>
    assert.deepEqual(await reached(box), ["good.example", "evil.example"]),
  "errors/request_id": async () => {
    const nobody = "00000000-0000-4000-8000-000000000000";
    const error = await refusal(manager().getSandboxInfo(nobody), 404);
    assert(error.requestId, "the exception has no request id");
  },
  "errors/wrong_key": async () => {
    const wrong = SandboxManager.create({ connectionConfig: { domain, apiKey: "wrong" } });
    await refusal(wrong.getSandboxInfo(box.id), 401);
  },
  "lifecycle/kill": async () => {
    await box.kill();
    await refusal(box.getInfo(), 404);
    await box.close();
  },
};

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
for (const [name, body] of Object.entries(cases)) {
  let verdict = `ok ${name}`;
  try {
    await body();
  } catch (error) {
    console.error(error);
    verdict = `not ok ${name} - ${String(error).replace(/\s+/g, " ").slice(0, 300)}`;
  }
  console.log(verdict);
  await answers.next(); // the runner has noted it
}
process.exit(0);
