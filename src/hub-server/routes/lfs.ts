// Large files on their own (git-lfs batch protocol, transfer "basic"): ask where to send, send the bytes, confirm.

import { badRequest, HubError, repoNotFound } from "../errors.js";
import { bodyChunks, isObject, readJson } from "../http/body.js";
import type { Call, RepoCall, Route } from "../http/call.js";
import { checkUpload, signUpload } from "../http/upload-url.js";
import { contentPath, parseRepoId, type RepoId, repoKey } from "../repo-id.js";
import { syncSealed } from "../store/blobs.js";

const MAX_BATCH_OBJECTS = 1000;
const lfsJson = { "Content-Type": "application/vnd.git-lfs+json" };

interface LfsObject {
  readonly oid: string;
  readonly size: number;
}

async function batch(call: RepoCall): Promise<Response> {
  const { operation, objects } = await readJson(call);
  if (operation !== "upload")
    throw badRequest("only the operation upload is served; download from /resolve/");
  if (!Array.isArray(objects)) throw badRequest("the body has no objects");
  if (objects.length > MAX_BATCH_OBJECTS)
    throw badRequest(`more than ${MAX_BATCH_OBJECTS} objects in one batch`);
  const answers: object[] = [];
  for (const object of objects) answers.push(await answerFor(call, parseObject(object)));
  return call.c.json({ transfer: "basic", objects: answers }, 200, lfsJson);
}

/** An object that is there already has no `actions` at all: the Python client stumbles over null. */
async function answerFor({ hub, repo, base }: RepoCall, { oid, size }: LfsObject): Promise<object> {
  if (size > hub.limits.maxFileBytes) {
    const message = `the file has ${size} bytes; at most ${hub.limits.maxFileBytes} are taken here`;
    return { oid, size, error: { code: 413, message } };
  }
  if ((await repo.blobs.sizeOf(oid)) === size) {
    await repo.blobs.touch(oid);
    return { oid, size };
  }
  const { id, uid } = repo.info;
  const expiresAtMs = hub.now().getTime() + hub.limits.uploadUrlLifetimeMs;
  const href =
    base +
    signUpload(hub.store.uploadKey, { repo: repoKey(id), uid, sha256: oid, sizeBytes: size, expiresAtMs });
  return {
    oid,
    size,
    authenticated: true,
    actions: {
      upload: { href, expires_at: new Date(expiresAtMs).toISOString() },
      verify: { href: `${base}${contentPath(id)}.git/info/lfs/verify` },
    },
  };
}

/** The address is the permission. Sending the same bytes again is fine. */
async function receive(call: Call): Promise<Response> {
  const { c, hub } = call;
  const sha256 = c.req.param("oid") ?? "";
  const sizeBytes = Number(c.req.query("size"));
  if (!/^[0-9a-f]{64}$/.test(sha256) || !Number.isSafeInteger(sizeBytes))
    throw badRequest("not an upload address");
  const id = repoFromKey(c.req.query("repo") ?? "");
  const repo = await hub.store.find(id);
  if (repo === undefined) throw repoNotFound(repoKey(id));
  const grant = {
    repo: repoKey(id),
    uid: repo.info.uid,
    sha256,
    sizeBytes,
    expiresAtMs: Number(c.req.query("exp")),
  };
  checkUpload(hub.store.uploadKey, grant, c.req.query("sig") ?? "", hub.now().getTime());
  const file = await hub.store.stage();
  try {
    for await (const chunk of bodyChunks(call, sizeBytes)) await file.write(chunk);
    const digest = await file.seal();
    if (digest.sizeBytes !== sizeBytes) {
      throw badRequest(`the upload has ${digest.sizeBytes} of the ${sizeBytes} bytes that were announced`);
    }
    if (digest.sha256 !== sha256)
      throw badRequest(`the upload has sha256 ${digest.sha256}, not ${sha256}: send it again`);
    await syncSealed([{ file, digest }]);
    await repo.blobs.publish([{ file, digest }]);
    return c.body(null, 200, { ETag: `"${sha256}"`, "Content-Length": "0" });
  } finally {
    await file.discard();
  }
}

async function verify(call: RepoCall): Promise<Response> {
  const { oid, size } = parseObject(await readJson(call));
  const found = await call.repo.blobs.sizeOf(oid);
  if (found === size) return call.c.json({}, 200, lfsJson);
  throw new HubError(
    found === undefined ? 404 : 422,
    "EntryNotFound",
    found === undefined
      ? `no content with sha256 ${oid}`
      : `the content ${oid} has ${found} bytes, not ${size}`,
  );
}

function parseObject(value: unknown): LfsObject {
  const { oid, size } = isObject(value) ? value : {};
  if (typeof oid !== "string" || !/^[0-9a-f]{64}$/.test(oid))
    throw badRequest("an object has no oid of 64 hexadecimal digits");
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    throw badRequest("an object has no size in bytes");
  if (size === 0) throw badRequest("an empty file cannot be uploaded on its own; send it inside the commit");
  return { oid, size };
}

function repoFromKey(key: string): RepoId {
  const [types, namespace, name, ...rest] = key.split("/");
  if (
    (types !== "models" && types !== "datasets") ||
    namespace === undefined ||
    name === undefined ||
    rest.length > 0
  ) {
    throw badRequest("not an upload address");
  }
  return parseRepoId(types === "models" ? "model" : "dataset", namespace, name);
}

export const lfsRoutes: readonly Route[] = [
  { method: "POST", path: "{git}/info/lfs/objects/batch", access: "write", handle: batch },
  { method: "POST", path: "{git}/info/lfs/verify", access: "write", handle: verify },
  { method: "PUT", path: "/_lfs/:oid", access: "anyone", handle: receive },
];
