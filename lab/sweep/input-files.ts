import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { whyUnreadable } from "../../traces/bytes.ts";
import { exampleName } from "../input.ts";
import { importsOf } from "../user-plugins/plugin-file.ts";
import { pluginPath, type SweptOptions } from "./options.ts";

/** A file that a configuration reads, or a folder. */
export interface InputFile {
  readonly path: string;
  /** SHA-256 of its content: of a folder, of all files in it; of a plug-in, also of the files that it imports. */
  readonly sha256: string;
}

/** Options whose values are plug-ins: names or files. */
const pluginOptions = [
  ...(["index", "eviction", "allocator", "scheduler", "router", "decodeRouter"] as const),
  ...(["cost", "format"] as const),
];
/** Options whose values may be files. */
const fileOptions = ["cost", "model", "tokenizer", "operations"] as const;

/** SHA-256 of files, each read once while it does not change. */
export class FileHashes {
  readonly #known = new Map<string, { readonly version: string; readonly sha256: string }>();
  /** By plug-in: its file and those that it imports. */
  readonly #imports = new Map<string, Promise<string[]>>();

  /** The files of a trace; none for the built-in example. @throws InputError */
  async ofTrace(trace: readonly string[]): Promise<InputFile[]> {
    const paths = trace.filter((path) => path !== exampleName);
    if (paths.length > 0 && paths.length < trace.length)
      throw new InputError(`"${exampleName}" is the built-in trace and cannot be combined with files`);
    return await Promise.all(paths.map(async (path) => ({ path, sha256: await this.of(path) })));
  }

  /** The other files that a configuration reads. @throws InputError if a plug-in's file does not exist */
  async ofOptions(options: SweptOptions): Promise<InputFile[]> {
    const files: InputFile[] = [];
    const add = (path: string, sha256: string) => {
      if (!files.some((file) => file.path === path)) files.push({ path, sha256 });
    };
    const plugins = pluginOptions.map((name) => pluginPath(options[name])).filter((path) => path !== undefined);
    for (const path of plugins) add(path, await this.ofPlugin(path));
    for (const name of fileOptions) {
      const path = String(options[name] ?? "").replace(/^(profile|random):/, "");
      if (path !== "" && !plugins.includes(path) && (await stat(path).catch(() => undefined)))
        add(path, await this.of(path));
    }
    return files;
  }

  /** @throws InputError if it cannot be read */
  async of(path: string): Promise<string> {
    const found = await stat(path, { bigint: true }).catch((error: unknown) => {
      throw new InputError(`${path}: ${whyUnreadable(error)}`);
    });
    if (found.isDirectory()) return await this.#ofFolder(path);
    if (!found.isFile()) throw new InputError(`${path}: is not a regular file, expected one`);
    const version = `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs}`;
    const known = this.#known.get(path);
    if (known?.version === version) return known.sha256;
    const hash = createHash("sha256");
    try {
      for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
    } catch (error) {
      throw new InputError(`${path}: ${whyUnreadable(error)}`);
    }
    const sha256 = hash.digest("hex");
    this.#known.set(path, { version, sha256 });
    return sha256;
  }

  /** Of a plug-in and its imports. */
  async ofPlugin(path: string): Promise<string> {
    let imports = this.#imports.get(path);
    if (!imports) {
      imports = importsOf(path);
      this.#imports.set(path, imports);
    }
    return await this.#ofAll(await imports);
  }

  async #ofFolder(folder: string): Promise<string> {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    return await this.#ofAll(files.sort());
  }

  async #ofAll(paths: readonly string[]): Promise<string> {
    const hash = createHash("sha256");
    for (const path of paths) hash.update(await this.of(path));
    return hash.digest("hex");
  }
}
