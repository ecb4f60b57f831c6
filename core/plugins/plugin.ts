/** What all plug-ins say of themselves; `kvlab policies` prints it. */
export interface Plugin {
  readonly name: string;
  /** One line: what it does. */
  readonly about: string;
  /** The paper or project that it comes from. */
  readonly source: string;
}

/** A number that a scheduler or router takes, by the name that the system itself gives it. */
export interface PluginOption {
  readonly about: string;
  readonly default: number;
  /** The least and the most that it may be; a whole number unless `fraction`. */
  readonly min?: number;
  readonly max?: number;
  readonly fraction?: true;
}
