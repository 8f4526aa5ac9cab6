// VS Code's page in a browser of the host: vscode.mjs KIT URL PASSWORD FILE TEXT WORDS PICTURE. Signs in, writes
// TEXT at the end of FILE and saves it, types WORDS and Return in a terminal; then says so, and stays until its
// standard input ends.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [kit, url, password, file, text, words, picture] = process.argv.slice(2);
// The package is in the build folder, where node does not look from here.
const { chromium } = createRequire(pathToFileURL(`${kit}/`))("playwright-core");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
// On a busy machine the default, 30 s, is soon over; the test itself waits 120 s.
page.setDefaultTimeout(100000);
try {
  await page.goto(url);
  await page.fill("input[name=password]", password);
  await page.press("input[name=password]", "Enter");
  await page.locator(".explorer-folders-view").getByText(file, { exact: true }).dblclick();
  await page.locator(".editor-instance .view-lines").filter({ hasText: "echo" }).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(text);
  await page.keyboard.press("Control+s");
  await page.locator(".tab.active:not(.dirty)").waitFor();
  await page.keyboard.press("Control+`");
  await page.locator(".terminal-wrapper.active .xterm-screen").click();
  await page.keyboard.type(words);
  await page.keyboard.press("Enter");
  console.log("typed");
  for await (const _ of process.stdin); // until the terminal's shell has come and taken it
} finally {
  await page.screenshot({ path: picture });
  await browser.close();
}
