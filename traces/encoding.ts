import { TraceError } from "../core/errors.ts";

/** @throws TraceError if a file that begins with these bytes is UTF-16, as some programs of Windows write text */
export function refuseUtf16(path: string, beginning: Uint8Array): void {
  if (isUtf16(beginning)) throw new TraceError(`${path}: the text is UTF-16, expected UTF-8, plain or gzip`);
}

/** Whether the bytes begin with the byte order mark of UTF-16, or with two ASCII characters in UTF-16. */
function isUtf16([a, b, c, d]: Uint8Array): boolean {
  if ((a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff)) return true;
  const isAscii = (byte: number) => byte > 0 && byte < 0x80;
  return (isAscii(a) && b === 0 && isAscii(c) && d === 0) || (a === 0 && isAscii(b) && c === 0 && isAscii(d));
}
