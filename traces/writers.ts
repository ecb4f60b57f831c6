import { parquetWriter } from "./parquet/write.ts";
import { azureWriter } from "./write-azure.ts";
import { mooncakeWriter } from "./write-mooncake.ts";
import { qwenBailianWriter } from "./write-qwen-bailian.ts";
import { tokenIdsWriter } from "./write-token-ids.ts";
import type { TraceWriter } from "./writer.ts";

/** All formats that traces are written in. */
export const traceWriters: readonly TraceWriter[] = [
  ...[parquetWriter, mooncakeWriter, tokenIdsWriter, qwenBailianWriter, azureWriter],
];
