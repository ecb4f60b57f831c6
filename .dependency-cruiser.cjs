// Imports point one way: policies, traces, laws, sim, engine, viz → core; conformance → core, policies, laws; cli → all; scripts,
// which write the docs, → all. sim and engine never meet.
const ours = "^(policies|traces|laws|conformance|sim|engine|viz|cli|bench|scripts|test|notebooks)/";

/** A folder that may import from itself, from core and from libraries. */
const onlyCore = (folder) => ({
  name: `${folder}-imports-only-core`,
  severity: "error",
  from: { path: `^${folder}/` },
  to: { path: ours, pathNot: `^${folder}/` },
});

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    { name: "core-imports-nothing-of-ours", severity: "error", from: { path: "^core/" }, to: { path: ours } },
    ...["policies", "traces", "laws", "sim", "engine", "viz"].map(onlyCore),
    {
      name: "conformance-drives-only-the-parts",
      severity: "error",
      from: { path: "^conformance/" },
      to: { path: ours, pathNot: "^(conformance|policies|laws)/" },
    },
    {
      name: "nobody-imports-the-conformance-cases",
      severity: "error",
      from: { pathNot: "^(conformance|cli|test)/" },
      to: { path: "^conformance/" },
    },
    {
      name: "the-plug-in-entry-shows-only-core",
      severity: "error",
      from: { path: "^index\\.ts$" },
      to: { path: ours },
    },
    {
      name: "nobody-imports-the-command-line",
      severity: "error",
      from: { path: "^(core|policies|traces|laws|conformance|sim|engine|viz|bench)/" },
      to: { path: "^cli/" },
    },
    {
      name: "nobody-imports-the-scripts",
      severity: "error",
      from: { pathNot: "^(scripts|test)/" },
      to: { path: "^scripts/" },
    },
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    { name: "everything-resolves", severity: "error", from: {}, to: { couldNotResolve: true, pathNot: "^kvlab$" } },
  ],
  options: {
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    includeOnly: { path: "^(core|policies|traces|laws|conformance|sim|engine|viz|cli|bench|scripts|index\\.ts)" },
  },
};
