import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { findBrowser } from "../../scripts/browser.ts";

const root = mkdtempSync(join(tmpdir(), "kvlab-browser-"));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;

/** A folder of programs, each of these shell commands. */
function programs(all: Readonly<Record<string, string>>): string {
  const folder = join(root, `${folders++}`);
  mkdirSync(folder);
  for (const [name, commands] of Object.entries(all)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${commands}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

describe("the browser is", () => {
  test("the one that CHROMIUM names, or none if it says so", () => {
    const folder = programs({ chromium: "", mine: "" });
    expect(findBrowser({ PATH: folder, CHROMIUM: join(folder, "mine") })).toBe(join(folder, "mine"));
    expect(findBrowser({ PATH: folder, CHROMIUM: "none" })).toBeUndefined();
    expect(() => findBrowser({ PATH: folder, CHROMIUM: folder })).toThrow("which is no program");
  });

  test("chromium before chrome, anywhere in PATH; what cannot be run is none", () => {
    const [chrome, both] = [programs({ "google-chrome": "" }), programs({ chromium: "", "google-chrome": "" })];
    expect(findBrowser({ PATH: `${chrome}:${both}` })).toBe(join(both, "chromium"));
    expect(findBrowser({ PATH: chrome })).toBe(join(chrome, "google-chrome"));
    chmodSync(join(chrome, "google-chrome"), 0o644);
    mkdirSync(join(chrome, "chromium"));
    expect(findBrowser({ PATH: `:${chrome}:/nowhere` })).toBeUndefined();
  });
});

describe.runIf(process.platform === "linux")("before the tests", () => {
  const script = ["--import", createRequire(import.meta.url).resolve("tsx"), "scripts/set-up-browser.ts"];
  const isDebian = /^ID=debian$/m.test(readFileSync("/etc/os-release", "utf8"));
  /** Runs the script where there are no other programs. */
  const setUp = (folder: string, env: NodeJS.ProcessEnv = {}) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, script, { env: { PATH: folder, ...env } });
    return { status, stdout: `${stdout}`, stderr: `${stderr}` };
  };
  // Runs a command as root would.
  const sudo = 'shift; if [ "$1" = true ]; then exit 0; fi; exec "$@"';
  const env = 'shift; exec "$@"';
  const without = /Without a browser go the tests of the dashboard's page: install chromium or chrome, or name one/;

  test("nothing is said or done where there is a browser, or none is wanted", () => {
    const quiet = { status: 0, stdout: "", stderr: "" };
    expect(setUp(programs({ chromium: "" }))).toEqual(quiet);
    expect(setUp(programs({}), { CHROMIUM: "none" })).toEqual(quiet);
  });

  test("a browser that CHROMIUM names and that is not there is refused", () => {
    expect(setUp(programs({ chromium: "" }), { CHROMIUM: "/nowhere" })).toMatchObject({
      ...{ status: 1, stderr: expect.stringMatching(/^CHROMIUM is \/nowhere, which is no program[^\n]*\n$/) },
    });
  });

  test("Debian's is installed", () => {
    const folder = programs({ sudo, env });
    const apt = `for word; do last=$word; done
      if [ "$last" = fonts-dejavu-core ]; then echo '#!/bin/sh' > ${folder}/chromium; /bin/chmod +x ${folder}/chromium; fi`;
    writeFileSync(join(folder, "apt-get"), `#!/bin/sh\n${apt}\n`);
    chmodSync(join(folder, "apt-get"), 0o755);
    const { status, stderr } = setUp(folder);
    expect(status).toBe(0);
    if (isDebian)
      expect(stderr).toMatch(/^The dashboard's tests need chromium, which is not here: apt-get install [^\n]*\n$/);
    else expect(stderr).toMatch(without);
  });

  test("where none can be had the tests go without", () => {
    const { status, stderr } = setUp(programs({ sudo, env, "apt-get": "exit 100" }));
    expect({ status, isSaid: without.test(stderr) }).toEqual({ status: 0, isSaid: true });
  });
});
