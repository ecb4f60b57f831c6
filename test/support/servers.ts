import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findPrograms, redisPrograms, slurmPrograms } from "../../scripts/programs.ts";

/** A port of 127.0.0.1 that is free now. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** Programs that a test has started, and its folder. */
class Started {
  readonly folder = mkdtempSync(join(tmpdir(), "kvlab-servers-"));
  readonly #children: ChildProcess[] = [];

  start(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
    const child = spawn(program, args, { stdio: "ignore", env: { ...process.env, ...env } });
    this.#children.push(child);
    return child;
  }

  async stop(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
    child.kill("SIGKILL");
    await closed;
  }

  /** Ends the programs, the last first, and removes the folder. */
  async end(): Promise<void> {
    for (const child of this.#children.reverse()) await this.stop(child);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Waits until `isReady` does not throw. @throws its error after 30 s */
async function until(isReady: () => void): Promise<void> {
  for (let left = 300; ; left--) {
    try {
      return isReady();
    } catch (error) {
      if (left === 0) throw error;
      await sleep(100);
    }
  }
}

export const hasRedis = findPrograms(redisPrograms);
export const hasSlurm = findPrograms(slurmPrograms) && process.getuid?.() === 0;

/** A Redis without persistence at a free port of 127.0.0.1. */
export class RedisServer {
  readonly #started = new Started();
  readonly #port: number;
  #child: ChildProcess | undefined;

  private constructor(port: number) {
    this.#port = port;
  }

  static async start(): Promise<RedisServer> {
    const server = new RedisServer(await freePort());
    await server.start();
    return server;
  }

  get address(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const options = ["--bind", "127.0.0.1", "--port", `${this.#port}`, "--save", "", "--appendonly", "no"];
    this.#child = this.#started.start("redis-server", [...options, "--dir", this.#started.folder]);
    await until(() => execFileSync("redis-cli", ["-p", `${this.#port}`, "ping"], { stdio: "pipe" }));
  }

  /** Ends it at once; it loses its content. */
  async kill(): Promise<void> {
    await this.#started.stop(this.#child!);
  }

  end(): Promise<void> {
    return this.#started.end();
  }
}

/** A Slurm cluster of this machine: munged, slurmctld and slurmd with a configuration in a folder of their own. */
export class SlurmCluster {
  readonly #started = new Started();

  static async start(): Promise<SlurmCluster> {
    const cluster = new SlurmCluster();
    try {
      await cluster.#start();
      return cluster;
    } catch (error) {
      await cluster.end();
      throw error;
    }
  }

  /** Environment of Slurm's programs. */
  get env(): NodeJS.ProcessEnv {
    return { SLURM_CONF: join(this.#started.folder, "slurm.conf") };
  }

  /** The output of a program of Slurm. */
  run(program: string, ...args: string[]): string {
    return execFileSync(program, args, { env: { ...process.env, ...this.env }, encoding: "utf8", stdio: "pipe" });
  }

  async end(): Promise<void> {
    await this.#started.end();
  }

  async #start(): Promise<void> {
    const { folder } = this.#started;
    chmodSync(folder, 0o755);
    for (const name of ["state", "spool"]) mkdirSync(join(folder, name));
    const at = (name: string) => join(folder, name);
    const socket = at("munge.socket");
    writeFileSync(at("munge.key"), Buffer.alloc(1024, 7), { mode: 0o400 });
    const files = { socket: "munge.socket", "key-file": "munge.key", "log-file": "munge.log" };
    const others = { "pid-file": "munge.pid", "seed-file": "munge.seed" };
    const options = Object.entries({ ...files, ...others }).map(([name, file]) => `--${name}=${at(file)}`);
    this.#started.start("munged", ["--foreground", "--force", ...options]);
    await until(() => execFileSync("munge", ["--no-input", `--socket=${socket}`], { stdio: "pipe" }));
    const host = hostname().split(".")[0];
    const lines = [
      "ClusterName=kvlab",
      `SlurmctldHost=${host}(127.0.0.1)`,
      `SlurmctldPort=${await freePort()}`,
      `SlurmdPort=${await freePort()}`,
      ...["SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", "CredType=cred/munge"],
      `AuthInfo=socket=${socket}`,
      `StateSaveLocation=${at("state")}`,
      `SlurmdSpoolDir=${at("spool")}`,
      `SlurmctldPidFile=${at("slurmctld.pid")}`,
      `SlurmdPidFile=${at("slurmd.pid")}`,
      `SlurmctldLogFile=${at("slurmctld.log")}`,
      `SlurmdLogFile=${at("slurmd.log")}`,
      ...["ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MailProg=/bin/true", "ReturnToService=2"],
      ...["SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SlurmdParameters=config_overrides"],
      "SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0",
      `NodeName=${host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN`,
      "PartitionName=all Nodes=ALL Default=YES State=UP",
    ];
    writeFileSync(at("slurm.conf"), `${lines.join("\n")}\n`);
    this.#started.start("slurmctld", ["-D", "-i"], this.env);
    this.#started.start("slurmd", ["-D"], this.env);
    await until(() => {
      const state = this.run("sinfo", "--noheader", "--format", "%T").trim();
      if (!/^(idle|mixed)$/.test(state)) throw new Error(`the cluster's node is ${state}`);
    });
  }
}
