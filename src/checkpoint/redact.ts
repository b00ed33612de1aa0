// The last guard against secrets in a checkpoint. The configuration should arrive without any; a value under a
// key that names a credential is blanked all the same. Not a general scanner.

const REDACTED = "<redacted>";
const secretKeys = new Set([
  "token",
  "api_key",
  "apikey",
  "password",
  "secret",
  "access_token",
  "auth_token",
]);

/** A copy in which every non-empty text under a key such as `token` or `password` is `<redacted>`. */
export function redactSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redactSecrets);
  if (typeof value !== "object" || value === null) return value;
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      const isSecret = secretKeys.has(key.toLowerCase()) && typeof member === "string" && member !== "";
      return [key, isSecret ? REDACTED : redactSecrets(member)];
    }),
  );
}
