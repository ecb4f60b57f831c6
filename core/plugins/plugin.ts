/** Name and description of a plug-in; `kvlab policies` prints them. */
export interface Plugin {
  /** Unique within its kind: a letter, then letters, digits, `-` or `_`. */
  readonly name: string;
  /** Description in one line. */
  readonly about: string;
  /** The paper or project that it implements. */
  readonly source: string;
}

/** A numeric option of a scheduler or router, with the name that it has in the real system. */
export interface PluginOption {
  /** Description in one line. */
  readonly about: string;
  readonly default: number;
  /** Allowed range; a whole number unless `fraction`. */
  readonly min?: number;
  readonly max?: number;
  readonly fraction?: true;
}
