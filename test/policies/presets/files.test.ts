import { readdirSync, readFileSync } from "node:fs";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { createCache } from "../../../core/replica/compose.ts";
import { everyPreset, rulesOf } from "./presets.ts";

const folder = new URL("../../../policies/presets/", import.meta.url);
const files = readdirSync(folder).filter((name) => name !== "index.ts");

/** The systems that must have a preset. */
const required =
  "lightllm lmdeploy mini-sglang nano-vllm prefix-pool prefix-trie roseinfer sglang tgi tgi-simple trt-llm turbomind vllm vllm-v0";

/** Versions of systems that have presets of their own. */
const versions = "sglang@2501 vllm-v0@0.8 vllm@0.19";

/** Syntax that a description does not need. */
const logic = new Set([
  ts.SyntaxKind.ArrowFunction,
  ts.SyntaxKind.FunctionDeclaration,
  ts.SyntaxKind.FunctionExpression,
  ts.SyntaxKind.MethodDeclaration,
  ts.SyntaxKind.GetAccessor,
  ts.SyntaxKind.ClassDeclaration,
  ts.SyntaxKind.ClassExpression,
  ts.SyntaxKind.CallExpression,
  ts.SyntaxKind.NewExpression,
  ts.SyntaxKind.ForStatement,
  ts.SyntaxKind.ForInStatement,
  ts.SyntaxKind.ForOfStatement,
  ts.SyntaxKind.WhileStatement,
  ts.SyntaxKind.DoStatement,
  ts.SyntaxKind.IfStatement,
  ts.SyntaxKind.SwitchStatement,
  ts.SyntaxKind.ConditionalExpression,
  ts.SyntaxKind.BinaryExpression,
  ts.SyntaxKind.PrefixUnaryExpression,
  ts.SyntaxKind.SpreadAssignment,
]);

/** Names of the kinds of logic in a source. */
function logicIn(text: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (logic.has(node.kind)) found.push(ts.SyntaxKind[node.kind]);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile("preset.ts", text, ts.ScriptTarget.Latest, true));
  return found;
}

test("every required system is a preset, in a file of its name", () => {
  const all = `${required} ${versions}`.split(" ").sort();
  expect(everyPreset.map(([name]) => name)).toEqual(all);
  expect(files.map((file) => file.replace(/\.ts$/, "")).sort()).toEqual(
    all.map((name) => name.replace("@", "-")).sort(),
  );
});

describe.each(files)("%s", (file) => {
  const text = readFileSync(new URL(file, folder), "utf8");

  test("is a short description without logic, with a link to its source", () => {
    expect(text.split("\n").length - 1).toBeLessThan(60);
    expect(logicIn(text)).toEqual([]);
    expect(text).toMatch(/link: "https:\/\/\S+"/);
  });
});

test("block sizes are the systems' defaults", () => {
  const named: Record<string, string[]> = {};
  for (const [name, { blockTokens }] of everyPreset) (named[blockTokens] ??= []).push(name);
  expect(named).toEqual({
    1: ["lightllm", "mini-sglang", "sglang", "sglang@2501", "tgi"],
    16: ["prefix-pool", "prefix-trie", "tgi-simple", "vllm", "vllm-v0", "vllm-v0@0.8", "vllm@0.19"],
    32: ["trt-llm"],
    64: ["lmdeploy", "roseinfer", "turbomind"],
    256: ["nano-vllm"],
  });
});

test.each(everyPreset)("%s has a description, and its plug-ins support its rules", (name, preset) => {
  const { about, source, link, scheduler, blockTokens, index, eviction, allocator } = preset;
  for (const text of [about, source, scheduler]) expect(text).not.toBe("");
  expect(new URL(link).protocol).toBe("https:");
  expect(blockTokens).toBeGreaterThan(0);
  expect(name).toBe(preset.name);
  const context = { blocks: 4, blockTokens, index, eviction, allocator, rules: preset.rules, seed: 1 };
  expect(createCache(context).rules).toEqual(rulesOf(preset));
});

test("the check for logic detects code", () => {
  expect(logicIn("const a = { f() { return 1; } };")).toEqual(["MethodDeclaration"]);
  expect(logicIn("const a = { ...b, c: x ? 1 : 2, d: f(() => 3) };")).toEqual([
    "SpreadAssignment",
    "ConditionalExpression",
    "CallExpression",
    "ArrowFunction",
  ]);
});
