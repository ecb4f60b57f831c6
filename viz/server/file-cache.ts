import type { Inside } from "./inside.ts";

interface Kept<Content> {
  readonly version: string;
  readonly content: Promise<Content>;
  bytes: number;
}

/** Reads files one at a time, shares concurrent reads of a file, and caches the most recently used ones. */
export class FileCache<Content> {
  readonly #read: (file: Inside) => Promise<Content>;
  readonly #bytesOf: (content: Content) => number;
  readonly #most: { readonly files: number; readonly bytes: number };
  readonly #kept = new Map<string, Kept<Content>>();
  #last: Promise<unknown> = Promise.resolve();

  /** At most `most` is cached, except for the last file, which always is. */
  constructor(
    read: (file: Inside) => Promise<Content>,
    bytesOf: (content: Content) => number,
    most: { readonly files: number; readonly bytes: number },
  ) {
    this.#read = read;
    this.#bytesOf = bytesOf;
    this.#most = most;
  }

  /** @throws the error of reading the file, which is not cached */
  async read(file: Inside): Promise<Content> {
    const known = this.#kept.get(file.path);
    this.#kept.delete(file.path);
    const kept = known?.version === file.version ? known : this.#start(file);
    this.#kept.set(file.path, kept);
    this.#makeRoom();
    return await kept.content;
  }

  #start(file: Inside): Kept<Content> {
    const content = this.#last.then(() => this.#read(file));
    this.#last = content.catch(() => {});
    const kept: Kept<Content> = { version: file.version, content, bytes: 0 };
    content.then(
      (read) => {
        kept.bytes = this.#bytesOf(read);
        this.#makeRoom();
      },
      () => {
        if (this.#kept.get(file.path) === kept) this.#kept.delete(file.path);
      },
    );
    return kept;
  }

  /** Evicts the least recently used files; the last one stays. */
  #makeRoom(): void {
    const bytes = () => [...this.#kept.values()].reduce((sum, kept) => sum + kept.bytes, 0);
    while (this.#kept.size > 1 && (this.#kept.size > this.#most.files || bytes() > this.#most.bytes))
      this.#kept.delete(this.#kept.keys().next().value!);
  }
}
