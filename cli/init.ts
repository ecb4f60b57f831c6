import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import { InputError } from "../core/errors.ts";
import { calledAs } from "../lab/package.ts";
import { badPolicyName } from "../lab/user-plugins/user-policy.ts";
import { replaceable } from "../traces/write-mooncake.ts";
import { print } from "./output/print.ts";

export function addInit(program: Command): void {
  const init = program
    .command("init")
    .description("write a file to begin with")
    .helpCommand("help [COMMAND]", "print the help of a command");
  init
    .command("policy")
    .description("write an eviction policy of your own that runs as it is")
    .argument("[NAME]", "its name, and that of the file NAME.ts", "mine")
    .option("--force", "replace the file if it exists")
    .addHelpText("after", "\nExamples:\n  kvlab init policy\n  kvlab init policy two-touch")
    .action(initPolicy);
}

async function initPolicy(given: string, { force }: { force?: boolean }): Promise<void> {
  const name = given.replace(/\.ts$/, "");
  const why = badPolicyName(name);
  if (why !== undefined) throw new InputError(`the policy's name is "${given}", ${why}`);
  const file = `${name}.ts`;
  await replaceable(file);
  try {
    await writeFile(file, template(name), { flag: force ? "w" : "wx" });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new InputError(
      code === "EEXIST"
        ? `${file}: exists already; give another name (kvlab init policy NAME), or --force to replace it`
        : `${file}: cannot be written (${code})`,
    );
  }
  const kvlab = calledAs();
  print(`Wrote ${file}. Try it:\n  ${kvlab} compare --eviction lru,./${file}\n  ${kvlab} check ./${file}\n`);
}

const template = (name: string) => `import { byScore, type EvictionPlugin, type EvictionPolicy } from "kvlab";

/**
 * Blocks that were used again go last; of the others, and among equals, the least recently used goes first.
 *
 * A score is a column of facts about each block (lastAccess, createdAt, accessCount, depth, tokens, releaseOrder,
 * recomputeCost, key), one with a minus (from large to small), or a function. The smallest score goes first; the next
 * score decides between equals.
 */
const policy: EvictionPlugin = {
  name: "${name}",
  about: "used once goes before used again, then least recently used first",
  source: "my own",
  columns: ["accessCount", "lastAccess", "releaseOrder"],
  create(context): EvictionPolicy {
    const { accessCount } = context.columns;
    const used = (block: number) => Math.min(accessCount[block], 1);
    return byScore(used, "lastAccess", "releaseOrder").create(context);
  },
};

export default policy;
`;
