export { agents } from "./agents.ts";
export { aibrix } from "./aibrix.ts";
export { mooncake } from "./mooncake.ts";
export { openaiChat } from "./openai-chat.ts";
export { parquet } from "./parquet/parquet.ts";
export { prompts } from "./prompts.ts";
export { sharegpt } from "./sharegpt.ts";
export { tokenIds } from "./token-ids.ts";
