// The unmodified JavaScript SDK: create, run, kill. Run by sdk_test.py: client.mjs DOMAIN KEY IMAGE.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are in the build folder, where node does not look from here.
const require = createRequire(pathToFileURL(process.env.SDK_DIR + "/"));
const { ConnectionConfig, Sandbox } = require("@alibaba-group/opensandbox");

const [domain, apiKey, image] = process.argv.slice(2);
const sandbox = await Sandbox.create({
  connectionConfig: new ConnectionConfig({ domain, apiKey }),
  image,
});
try {
  const done = await sandbox.commands.run("echo from javascript");
  console.log(done.logs.stdout[0].text);
} finally {
  await sandbox.kill();
  await sandbox.close();
}
