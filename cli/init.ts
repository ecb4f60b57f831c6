import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { calledAs, entryUrl } from "../lab/package.ts";
import type { PluginKind } from "../lab/user-plugins/kinds.ts";
import { badPluginName } from "../lab/user-plugins/plugin-file.ts";
import { replaceable } from "../traces/replace-file.ts";
import { notebookText } from "./init/notebook.ts";
import { templates } from "./init/templates.ts";
import { print } from "./output/print.ts";

export function addInit(program: Command): void {
  const init = program
    .command("init")
    .description("write a plug-in file or a notebook from a template that runs unchanged")
    .helpCommand("help [COMMAND]", "print the help of a command");
  for (const template of Object.keys(templates))
    init
      .command(template)
      .description(`write a template of ${descriptions[template]}`)
      .argument("[NAME]", "name of the plug-in and of its file NAME.ts", "mine")
      .option("--force", "replace the file if it exists")
      .addHelpText("after", `\nExamples:\n  kvlab init ${template}\n  kvlab init ${template} two-touch`)
      .action((name: string, options: { force?: boolean }) => initPlugin(template, name, options));
  init
    .command("notebook")
    .description("write a template of a notebook with a figure")
    .argument("[NAME]", "name of the notebook and of its file NAME.html", "mine")
    .option("--force", "replace the file if it exists")
    .addHelpText("after", notebookHelp)
    .action(initNotebook);
}

const notebookHelp = `
Examples:
  kvlab init notebook
  kvlab init notebook my-traffic

In the folder notebooks/ of a checkout, npm run notebooks -- NAME makes its data
and its page. Anywhere else, Observable's Notebook Kit does:
  npm install @observablehq/notebook-kit @observablehq/plot
  npx notebooks preview`;

async function initNotebook(given: string, { force }: { force?: boolean }): Promise<void> {
  const name = given.replace(/\.html$/, "");
  if (!/^[a-z0-9][a-z0-9-]*$/.test(name) || name === "index")
    throw new InputError(
      `the notebook's name is "${given}", expected small letters, digits and hyphens, and not "index"`,
    );
  await writeNew(`${name}.html`, notebookText(name), "notebook", force);
  print(
    `Wrote ${name}.html. Make its data and its page, in the folder notebooks/ of a checkout:\n  npm run notebooks -- ${name}\n` +
      `Anywhere else:\n  npm install @observablehq/notebook-kit @observablehq/plot\n` +
      `  mkdir -p data/${name} && cd data/${name} && (the commands in ${name}.html)\n  npx notebooks preview\n`,
  );
}

const descriptions: Readonly<Record<string, string>> = {
  policy: "an eviction policy",
  index: "a prefix index",
  scheduler: "a scheduler",
  allocator: "an allocator",
  router: "a router",
  cost: "a cost model",
  reader: "a trace reader",
};

async function initPlugin(template: string, given: string, { force }: { force?: boolean }): Promise<void> {
  const name = given.replace(/\.ts$/, "");
  const problem = badPluginName(name, template === "policy" ? "eviction" : (template as PluginKind));
  if (problem !== undefined) throw new InputError(`the ${template}'s name is "${given}", ${problem}`);
  const file = `${name}.ts`;
  await writeNew(file, templates[template].text(name), template, force);
  const types = await writeTypes();
  const kvlab = calledAs();
  const check = `  ${kvlab} check ./${file}${template === "reader" ? " --trace requests.csv" : ""}\n`;
  print(`Wrote ${file}${types}. Try it:\n  ${kvlab} ${templates[template].tryWith}./${file}\n${check}`);
}

/** @throws InputError if the file exists and is not to be replaced, or cannot be written */
async function writeNew(file: string, text: string, kind: string, force: boolean | undefined): Promise<void> {
  await replaceable(file);
  try {
    await writeFile(file, text, { flag: force ? "w" : "wx" });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new InputError(
      code === "EEXIST"
        ? `${file}: already exists; choose another name (kvlab init ${kind} NAME), or --force to replace it`
        : `${file}: cannot be written (${code})`,
    );
  }
}

/**
 * Writes a tsconfig.json that points editors to the types of `kvlab`, unless one exists or the package is installed here.
 * Returns the text to print.
 */
async function writeTypes(): Promise<string> {
  for (let folder = resolve("."); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "node_modules/kvlab"))) return "";
    if (folder === dirname(folder)) break;
  }
  const types = fileURLToPath(entryUrl).replace(/\.js$/, ".d.ts");
  const nodeTypes = join(dirname(types), "node_modules/@types");
  const compilerOptions = {
    ...{ target: "ES2023", module: "NodeNext", strict: true, noEmit: true, skipLibCheck: true },
    ...{ allowImportingTsExtensions: true, paths: { kvlab: [types] } },
    ...(existsSync(join(nodeTypes, "node")) && { typeRoots: [nodeTypes], types: ["node"] }),
  };
  const text = `${JSON.stringify({ compilerOptions, include: ["*.ts"] }, undefined, 2)}\n`;
  const isWritten = await writeFile("tsconfig.json", text, { flag: "wx" }).then(
    () => true,
    () => false,
  );
  return isWritten ? " and tsconfig.json, which points editors to the types of kvlab" : "";
}
