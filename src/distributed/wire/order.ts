// Order of texts on the wire: by code points, which is the order of UTF-8 bytes and Python's order of strings.
// JavaScript's own order goes by UTF-16 units and differs beyond U+FFFF.

/** Negative, zero or positive as `a` comes before, is, or comes after `b`. */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    const isSurrogateX = x >= 0xd800 && x <= 0xdfff;
    const isSurrogateY = y >= 0xd800 && y <= 0xdfff;
    return isSurrogateX === isSurrogateY ? x - y : isSurrogateX ? 1 : -1;
  }
  return a.length - b.length;
}
