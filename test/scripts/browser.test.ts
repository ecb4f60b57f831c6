import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { findBrowser } from "../../scripts/browser.ts";
import { redisPrograms, slurmPrograms } from "../../scripts/programs.ts";

const root = mkdtempSync(join(tmpdir(), "kvlab-browser-"));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;

/** A folder with a shell script per name. */
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
  test("the one that CHROMIUM names, or none for CHROMIUM=none", () => {
    const folder = programs({ chromium: "", mine: "" });
    expect(findBrowser({ PATH: folder, CHROMIUM: join(folder, "mine") })).toBe(join(folder, "mine"));
    expect(findBrowser({ PATH: folder, CHROMIUM: "none" })).toBeUndefined();
    expect(() => findBrowser({ PATH: folder, CHROMIUM: folder })).toThrow("which is not a program");
  });

  test("chromium before chrome, anywhere in PATH; files that are not executable are skipped", () => {
    const [chrome, both] = [programs({ "google-chrome": "" }), programs({ chromium: "", "google-chrome": "" })];
    expect(findBrowser({ PATH: `${chrome}:${both}` })).toBe(join(both, "chromium"));
    expect(findBrowser({ PATH: chrome })).toBe(join(chrome, "google-chrome"));
    chmodSync(join(chrome, "google-chrome"), 0o644);
    mkdirSync(join(chrome, "chromium"));
    expect(findBrowser({ PATH: `:${chrome}:/nowhere` })).toBeUndefined();
  });
});

describe.runIf(process.platform === "linux")("before the tests", () => {
  const script = ["--import", createRequire(import.meta.url).resolve("tsx"), "scripts/set-up-tests.ts"];
  const isDebian = /^ID=debian$/m.test(readFileSync("/etc/os-release", "utf8"));
  const servers = programs(Object.fromEntries([...redisPrograms, ...slurmPrograms].map((name) => [name, ""])));
  /** Runs the script with only these programs and the servers in PATH; without other variables, it requires a browser only. */
  const setUp = (folder: string, env: NodeJS.ProcessEnv = {}) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, script, {
      env: { PATH: `${folder}:${servers}`, CXX: "none", ...env },
    });
    return { status, stdout: `${stdout}`, stderr: `${stderr}` };
  };
  // Replacements of sudo and env that run the command.
  const sudo = 'shift; if [ "$1" = true ]; then exit 0; fi; exec "$@"';
  const env = 'shift; exec "$@"';
  const skipped = /The dashboard's browser tests are skipped: install chromium or chrome, or set CHROMIUM/;

  test("nothing is printed or installed if there is a browser, or for CHROMIUM=none", () => {
    const quiet = { status: 0, stdout: "", stderr: "" };
    expect(setUp(programs({ chromium: "" }))).toEqual(quiet);
    expect(setUp(programs({}), { CHROMIUM: "none" })).toEqual(quiet);
  });

  test("a CHROMIUM that does not exist is refused", () => {
    expect(setUp(programs({ chromium: "" }), { CHROMIUM: "/nowhere" })).toMatchObject({
      ...{ status: 1, stderr: expect.stringMatching(/^CHROMIUM is "\/nowhere", which is not a program[^\n]*\n$/) },
    });
  });

  test("on Debian, chromium is installed", () => {
    const folder = programs({ sudo, env });
    const apt = `for word; do last=$word; done
      if [ "$last" = fonts-dejavu-core ]; then echo '#!/bin/sh' > ${folder}/chromium; /bin/chmod +x ${folder}/chromium; fi`;
    writeFileSync(join(folder, "apt-get"), `#!/bin/sh\n${apt}\n`);
    chmodSync(join(folder, "apt-get"), 0o755);
    const { status, stderr } = setUp(folder);
    expect(status).toBe(0);
    if (isDebian)
      expect(stderr).toMatch(/^The dashboard's browser tests require chromium; running apt-get install [^\n]*\n$/);
    else expect(stderr).toMatch(skipped);
  });

  test("on Debian, g++ is installed where it or AddressSanitizer is missing", () => {
    const folder = programs({ sudo, env });
    const library = join(folder, "libasan.so");
    const compiler = `if [ "$1" = -print-file-name=libasan.so ]; then echo ${library}; fi`;
    const apt = `for word; do last=$word; done
      if [ "$last" = g++ ]; then printf '#!/bin/sh\\n%s\\n' '${compiler}' > ${folder}/g++; /bin/chmod +x ${folder}/g++; echo > ${library}; fi`;
    writeFileSync(join(folder, "apt-get"), `#!/bin/sh\n${apt}\n`);
    chmodSync(join(folder, "apt-get"), 0o755);
    const { status, stderr } = setUp(folder, { CXX: undefined, CHROMIUM: "none" });
    expect(status).toBe(0);
    if (isDebian) expect(stderr).toBe("The CUDA engine's tests require g++; running apt-get install g++\n");
    else expect(stderr).toMatch(/^The CUDA engine's tests are skipped: install g\+\+ with libasan/);
  });

  test("if the installation fails, the tests are skipped", () => {
    const { status, stderr } = setUp(programs({ sudo, env, "apt-get": "exit 100" }));
    expect({ status, isSaid: skipped.test(stderr) }).toEqual({ status: 0, isSaid: true });
  });
});
