/** Callbacks of the program around the library for plug-in files, whose code runs in its process. */
export interface PluginHost {
  /** Called once, before the first file is imported. */
  prepare(): void;
  /** Runs `act`, which runs no plug-in code. */
  withoutPluginCode<Result>(act: () => Promise<Result>): Promise<Result>;
}

let host: PluginHost = { prepare() {}, withoutPluginCode: (act) => act() };

/** The command line shields its signals and its output from plug-in files; other programs need no host. */
export function setPluginHost(own: PluginHost): void {
  host = own;
}

export const pluginHost = (): PluginHost => host;
