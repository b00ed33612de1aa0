// Delta paths, node ids and pointers to weights: what is taken, and every form that is refused, with its reason.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkModelFile,
  checkNodeId,
  compareDeltaPaths,
  type DeltaPath,
  deltaPath,
  modelFileProblem,
  nodeIdProblem,
  parseDeltaPath,
  versionedModelFile,
} from "../../src/distributed/index.js";

const parsed = (path: string) => {
  const { kind, path: same, ...rest } = parseDeltaPath(path);
  expect(same).toBe(path);
  return kind === "other" ? kind : rest;
};

describe("parseDeltaPath", () => {
  test("takes the canonical form, whoever wrote it", () => {
    expect(parsed("nodes/a/delta_12.safetensors")).toEqual({ nodeId: "a", localStep: 12 });
    expect(parsed("nodes/a/delta_0.safetensors")).toEqual({ nodeId: "a", localStep: 0 });
    expect(parsed("nodes/a b/delta_1.safetensors")).toEqual({ nodeId: "a b", localStep: 1 });
    expect(parsed("nodes/名/delta_9007199254740991.safetensors")).toEqual({
      nodeId: "名",
      localStep: Number.MAX_SAFE_INTEGER,
    });
  });

  test.each([
    ["nodes/a/delta_007.safetensors", 'its step "007" has a leading zero'],
    ["nodes/a/delta_00.safetensors", 'its step "00" has a leading zero'],
    ["nodes/a/delta_+5.safetensors", 'its step "+5" has a sign'],
    ["nodes/a/delta_-3.safetensors", 'its step "-3" has a sign'],
    ["nodes/a/delta_-0.safetensors", 'its step "-0" has a sign'],
    ["nodes/a/delta_ 5.safetensors", 'its step " 5" has a blank'],
    ["nodes/a/delta_5 .safetensors", 'its step "5 " has a blank'],
    ["nodes/a/delta_5\n.safetensors", 'its step "5\\n" has a blank'],
    ["nodes/a/delta_1_000.safetensors", 'its step "1_000" has an underscore'],
    ["nodes/a/delta_٣.safetensors", 'its step "٣" has digits other than 0 to 9'],
    ["nodes/a/delta_.safetensors", 'its step "" is empty'],
    ["nodes/a/delta_5.0.safetensors", 'its step "5.0" is not a plain decimal number'],
    ["nodes/a/delta_0x5.safetensors", 'its step "0x5" is not a plain decimal number'],
    ["nodes/a/delta_1e3.safetensors", 'its step "1e3" is not a plain decimal number'],
    ["nodes/a/delta_9007199254740992.safetensors", 'its step "9007199254740992" is above 2^53 - 1'],
    ["nodes/a/delta_1.safetensors.safetensors", 'its step "1.safetensors" is not a plain decimal number'],
    ["nodes/a/delta_12", "does not end with .safetensors"],
    ["nodes/a/delta_12.SAFETENSORS", "does not end with .safetensors"],
    ["nodes/a/delta_12.safetensors\n", "does not end with .safetensors"],
    ["nodes//delta_1.safetensors", "its node id is empty"],
    ["nodes/./delta_1.safetensors", 'its node id is ".", which names a folder and no node'],
    ["nodes/../delta_1.safetensors", 'its node id is "..", which names a folder and no node'],
    ["nodes/a\\b/delta_1.safetensors", "its node id has a slash or backslash"],
    ["nodes/a\u0000/delta_1.safetensors", "its node id has a control character or half a surrogate pair"],
    [`nodes/${"é".repeat(128)}/delta_1.safetensors`, "its node id is longer than 255 bytes"],
    ["nodes/a/b/delta_1.safetensors", "has 4 parts between slashes, nodes/<node_id>/<file> has 3"],
    ["nodes/delta_1.safetensors", "has 2 parts between slashes, nodes/<node_id>/<file> has 3"],
  ])("reports %j", (path, reason) => {
    expect(parsed(path)).toEqual({ reason });
  });

  test.each(["Nodes/a/delta_1.safetensors", "nodes/a/status.json", "global/latest.safetensors", "", "nodes"])(
    "leaves %j to others",
    (path) => {
      expect(parsed(path)).toBe("other");
    },
  );

  test("gives back what deltaPath was given, and no two paths have one identity", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,20}x$/), fc.maxSafeNat(), (nodeId, localStep) => {
        const path = deltaPath(nodeId, localStep);
        expect(parseDeltaPath(path)).toEqual({ kind: "delta", path, nodeId, localStep });
      }),
      { seed: 3, numRuns: 300 },
    );
    fc.assert(
      fc.property(fc.stringMatching(/^nodes\/a\/delta_[0-9+_ -]{0,6}\.safetensors$/), (path) => {
        const found = parseDeltaPath(path);
        if (found.kind === "delta") expect(deltaPath(found.nodeId, found.localStep)).toBe(path);
      }),
      { seed: 3, numRuns: 500 },
    );
  });

  test("never throws", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(["delta", "odd", "other"]).toContain(parseDeltaPath(text).kind);
        expect(["delta", "odd"]).toContain(parseDeltaPath(`nodes/${text}/delta_1.safetensors`).kind);
      }),
      { seed: 5, numRuns: 300 },
    );
  });
});

test("deltas are ordered by node id in code points, then by step as a number", () => {
  const paths = [
    "nodes/a/delta_10",
    "nodes/a/delta_9",
    "nodes/b/delta_1",
    "nodes/\u{1f600}/delta_1",
    "nodes/\uff5e/delta_1",
  ];
  const found = paths
    .map((path) => parseDeltaPath(`${path}.safetensors`) as DeltaPath)
    .sort(compareDeltaPaths);
  expect(found.map(({ nodeId, localStep }) => `${nodeId}${localStep}`)).toEqual([
    "a9",
    "a10",
    "b1",
    "\uff5e1",
    "\u{1f600}1",
  ]);
});

test("deltaPath refuses what it could not read back", () => {
  expect(() => deltaPath("a/b", 1)).toThrow('node id "a/b" must consist of letters');
  for (const step of [-1, 1.5, Number.NaN, 2 ** 53]) {
    expect(() => deltaPath("a", step)).toThrow(
      `step ${step} of a delta must be an integer from 0 to 2^53 - 1`,
    );
  }
  expect(deltaPath("a", -0)).toBe("nodes/a/delta_0.safetensors");
});

describe("node ids", () => {
  test.each(["a", "worker-1", "A.b_c-9", "7", "x".repeat(64)])("%j is one", (id) => {
    expect(checkNodeId(id)).toBe(id);
  });

  test.each([
    ["", "is empty"],
    [".", "must consist"],
    ["..", "must consist"],
    [".hidden", "must consist"],
    ["-a", "must consist"],
    ["a.", "must consist"],
    [" a", "must consist"],
    ["a b", "must consist"],
    ["a\n", "must consist"],
    ["a/b", "must consist"],
    ["a\\b", "must consist"],
    ["é", "must consist"],
    ["con", "is a device name"],
    ["LPT1.txt", "is a device name"],
    ["x".repeat(65), "has 65 characters"],
  ])("%j is none", (id, reason) => {
    expect(nodeIdProblem(id)).toContain(reason);
    expect(() => checkNodeId(id)).toThrow(expect.objectContaining({ code: "wire.invalid_node_id" }));
  });
});

describe("L-62: pointers to weights", () => {
  test.each(["global/latest.safetensors", "global/step_000041.safetensors", "global/v/41/model.safetensors"])(
    "%j is one",
    (path) => {
      expect(modelFileProblem(path)).toBeUndefined();
    },
  );

  test.each([
    "latest.safetensors",
    "/etc/passwd",
    "global/../nodes/a/delta_1.safetensors",
    "global/a..b.safetensors",
    "global/.safetensors",
    "global//x.safetensors",
    "global/x.pt",
    "global/x\\y.safetensors",
    "global/%2e%2e/x.safetensors",
    "global/x.safetensors\n",
    "Global/latest.safetensors",
    "https://host/global/x.safetensors",
    "None",
    "",
    `global/${"x".repeat(300)}.safetensors`,
  ])("%j is refused", (path) => {
    expect(() => checkModelFile(path)).toThrow(expect.objectContaining({ code: "wire.invalid_model_file" }));
  });

  test("versions have names of their own that sort by number", () => {
    expect(versionedModelFile(41)).toBe("global/step_000041.safetensors");
    expect(modelFileProblem(versionedModelFile(12_345_678))).toBeUndefined();
  });
});
