/** A sequence of at least four bytes that is often next in a file. It is compared four bytes at a time. */
export class KnownBytes {
  readonly length: number;
  /** The bytes in words of four; the last word overlaps the one before if the length is not a multiple of four. */
  readonly #words: Int32Array;

  constructor(bytes: Uint8Array) {
    this.length = bytes.length;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const last = bytes.length - 4;
    this.#words = Int32Array.from({ length: Math.ceil(bytes.length / 4) }, (_, i) =>
      view.getInt32(Math.min(4 * i, last)),
    );
  }

  /** Whether the view has these bytes at `at`. */
  isAt(view: DataView, at: number): boolean {
    const words = this.#words;
    const last = at + this.length - 4;
    if (last + 4 > view.byteLength) return false;
    for (let i = 0; i < words.length - 1; i++) if (view.getInt32(at + 4 * i) !== words[i]) return false;
    return view.getInt32(last) === words[words.length - 1];
  }
}

/** Value of the four decimal digits at `at`; negative if the four bytes are not all digits. */
export function fourDigits(view: DataView, at: number): number {
  if (at + 4 > view.byteLength) return -1;
  const digits = view.getInt32(at, true) ^ 0x30303030;
  // The sum sets the highest bit of each byte above 9.
  if (((digits | (digits + 0x76767676)) & 0x80808080) !== 0) return -1;
  const pairs = (Math.imul(digits, 10) + (digits >>> 8)) | 0;
  return (pairs & 0xff) * 100 + ((pairs >>> 16) & 0xff);
}
