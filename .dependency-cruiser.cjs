// Imports point one way: policies, traces, laws, sim, engine, viz → core; conformance → core, policies, laws; lab → all of these;
// cli → all; scripts, which write the docs, → all. sim and engine never meet. Within core, each folder imports only those before it.
const ours = "^(policies|traces|laws|conformance|sim|engine|viz|lab|cli|bench|scripts|test|notebooks)/";

/** A folder that may import from itself, from core and from libraries. */
const onlyCore = (folder) => ({
  name: `${folder}-imports-only-core`,
  severity: "error",
  from: { path: `^${folder}/` },
  to: { path: ours, pathNot: `^${folder}/` },
});

/** The folders of core, lowest first. */
const coreFolders = ["trace", "plugins", "log", "cache", "replica", "serving"];

const notUpwards = (folder, i) => ({
  name: `core-${folder}-imports-nothing-above-it`,
  severity: "error",
  from: { path: `^core/${folder}/` },
  to: { path: `^core/(${coreFolders.slice(i + 1).join("|")})/` },
});

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    { name: "core-imports-nothing-of-ours", severity: "error", from: { path: "^core/" }, to: { path: ours } },
    ...coreFolders.slice(0, -1).map(notUpwards),
    {
      name: "core-basics-import-no-folder",
      severity: "error",
      from: { path: "^core/[^/]+$" },
      to: { path: "^core/[^/]+/" },
    },
    ...["policies", "traces", "laws", "sim", "engine", "viz"].map(onlyCore),
    {
      name: "conformance-drives-only-the-parts",
      severity: "error",
      from: { path: "^conformance/" },
      to: { path: ours, pathNot: "^(conformance|policies|laws)/" },
    },
    {
      name: "only-lab-and-cli-import-the-conformance-cases",
      severity: "error",
      from: { pathNot: "^(conformance|lab|cli|test)/" },
      to: { path: "^conformance/" },
    },
    {
      name: "nothing-below-lab-imports-it",
      severity: "error",
      from: { path: "^(core|policies|traces|laws|conformance|sim|engine|viz)/" },
      to: { path: "^lab/" },
    },
    {
      name: "only-tests-import-the-command-line",
      severity: "error",
      from: { pathNot: "^(cli|test)/" },
      to: { path: "^cli/" },
    },
    {
      name: "only-tests-import-the-scripts",
      severity: "error",
      from: { pathNot: "^(scripts|test)/" },
      to: { path: "^scripts/" },
    },
    ...["cpu", "cuda"].map((backend) => ({
      name: "only-the-registry-imports-a-backend",
      severity: "error",
      from: { pathNot: `^(engine/backends\\.ts|engine/${backend}/|bench/gpu/|test/)` },
      to: { path: `^engine/${backend}/` },
    })),
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    { name: "everything-resolves", severity: "error", from: {}, to: { couldNotResolve: true, pathNot: "^kvlab$" } },
  ],
  options: {
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    includeOnly: { path: "^(core|policies|traces|laws|conformance|sim|engine|viz|lab|cli|bench|scripts|index\\.ts)" },
  },
};
