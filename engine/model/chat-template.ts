import { existsSync } from "node:fs";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { Fields, readText } from "./json-fields.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Renders a conversation as the prompt format of a model. */
export interface ChatTemplate {
  /** @throws InputError if the model has none, or it cannot be rendered. */
  render(messages: readonly ChatMessage[]): Promise<string>;
}

/**
 * The template of a Hugging Face folder: `chat_template.jinja`, or `chat_template` of `tokenizer_config.json`, which may
 * be a list of named templates.
 */
export function readChatTemplate(folder: string): ChatTemplate {
  const configPath = join(folder, "tokenizer_config.json");
  const ownPath = join(folder, "chat_template.jinja");
  const config = existsSync(configPath) ? Fields.read(configPath) : undefined;
  const [path, source] = existsSync(ownPath)
    ? [ownPath, readText(ownPath)]
    : [configPath, config && templateIn(config)];
  return {
    async render(messages) {
      if (source === undefined) throw new InputError(`${folder}: the model has no chat template; give a plain prompt`);
      // Loaded only here: plain prompts need none.
      const { Template } = await import("@huggingface/jinja");
      const values = { ...specialTexts(config), messages, add_generation_prompt: true };
      try {
        return new Template(source).render(values);
      } catch (error) {
        throw new InputError(`${path}: chat template: ${(error as Error).message.replaceAll(/\s+/g, " ")}`);
      }
    },
  };
}

function templateIn(config: Fields): string | undefined {
  const value = config.raw("chat_template");
  if (value === undefined || typeof value === "string") return value;
  if (Array.isArray(value)) {
    const named = value as { name?: unknown; template?: unknown }[];
    const chosen = named.find((one) => one?.name === "default")?.template;
    if (typeof chosen === "string") return chosen;
  }
  throw config.wrong("chat_template", 'a template or a list of named ones with one named "default"');
}

/** Special tokens that templates refer to; each is a text or an object with `content`. */
function specialTexts(config: Fields | undefined): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const name of ["bos_token", "eos_token", "unk_token", "pad_token"]) {
    const value = config?.raw(name) as string | { content?: string } | undefined;
    const text = typeof value === "object" ? value.content : value;
    if (typeof text === "string") texts[name] = text;
  }
  return texts;
}
