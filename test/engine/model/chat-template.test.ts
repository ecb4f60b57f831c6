import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { byteCodec } from "../../../engine/model/byte-codec.ts";
import type { ChatMessage } from "../../../engine/model/chat-template.ts";
import { readTokenizer } from "../../../engine/model/tokenizer.ts";
import { folderOf } from "../../support/checkpoints.ts";
import { chatMlTemplate, chatTokenizer, chatTokens, llama3Template } from "../../support/tokenizers.ts";

const messages: readonly ChatMessage[] = [
  { role: "system", content: "Be kind." },
  { role: "user", content: " hello " },
];

const codecOf = (files: Record<string, unknown>) =>
  readTokenizer(folderOf({ "tokenizer.json": chatTokenizer, ...files }), 600);

/** The text of an encoded chat, with special tokens. */
async function written(files: Record<string, unknown>, chat = messages): Promise<string> {
  const codec = await codecOf(files);
  const names = new Map(Object.entries(chatTokens).map(([name, id]): [number, string] => [id, name]));
  return Array.from(await codec.encodeChat(chat), (token) => names.get(token) ?? codec.decode([token])).join("");
}

test("a chat in ChatML", async () => {
  expect(await written({ "tokenizer_config.json": { chat_template: chatMlTemplate, bos_token: null } })).toBe(
    "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n hello <|im_end|>\n<|im_start|>assistant\n",
  );
});

test("a chat in Llama 3's format has one start token: the template's, not a second one of the tokenizer", async () => {
  const config = { chat_template: llama3Template, bos_token: { content: "<|begin_of_text|>" } };
  expect(await written({ "tokenizer_config.json": config })).toBe(
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>" +
      "<|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
  );
});

test("of named templates the default one is used; a separate file takes precedence", async () => {
  const named = [
    { name: "tool_use", template: "no" },
    { name: "default", template: "{{ messages[1].content }}{{ eos_token }}" },
  ];
  const config = { "tokenizer_config.json": { chat_template: named, eos_token: "<|eot_id|>" } };
  expect(await written(config)).toBe(" hello <|eot_id|>");
  expect(await written({ ...config, "chat_template.jinja": "own" })).toBe("own");
});

test("a user's message is plain text to the template, even if it looks like template code", async () => {
  const files = { "chat_template.jinja": "{{ messages[0].content }}" };
  expect(await written(files, [{ role: "user", content: "{{ 7 * 6 }}" }])).toBe("{{ 7 * 6 }}");
});

async function failure(files: Record<string, unknown>): Promise<string> {
  const error: Error = await written(files).then(
    () => new Error("it did not fail"),
    (reason) => reason,
  );
  expect(error).toHaveProperty("name", "InputError");
  expect(error.message).not.toContain("\n");
  return error.message.replaceAll(/\S*\/m\d+\/?/g, "");
}

test("a chat that cannot be rendered is refused in one line", async () => {
  expect(await failure({})).toBe(": the model has no chat template; give a plain prompt");
  expect(await failure({ "chat_template.jinja": "{{ raise_exception('no system\n role') }}" })).toBe(
    "chat_template.jinja: chat template: no system role",
  );
  expect(await failure({ "chat_template.jinja": "{% for %}" })).toMatch(/^chat_template\.jinja: chat template: \w/);
  expect(await failure({ "chat_template.jinja": "{{ messages.nothing() }}" })).toMatch(/^chat_template\.jinja: /);
  expect(await failure({ "tokenizer_config.json": { chat_template: 7 } })).toBe(
    'tokenizer_config.json: chat_template is 7, expected a template or a list of named ones with one named "default"',
  );
  const folder = folderOf({ "tokenizer.json": chatTokenizer });
  mkdirSync(join(folder, "chat_template.jinja"));
  await expect(readTokenizer(folder, 300)).rejects.toThrow(/chat_template\.jinja: it is a folder$/);
  await expect(byteCodec.encodeChat([])).rejects.toThrow("random models have no chat template; give a plain prompt");
});
