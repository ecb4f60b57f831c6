// Builds the dashboard's page into dist/; the last step of `npm run build`.
import { fileURLToPath } from "node:url";
import { writePage } from "../viz/bundle.ts";

await writePage(fileURLToPath(new URL("../dist/viz/page", import.meta.url)));
