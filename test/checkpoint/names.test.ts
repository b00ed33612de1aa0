// Names of tensors on their way into a model: wrappers, rules of the user, and what fits.

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  canonicalNames,
  checkFit,
  type ExpectedTensor,
  formatPlan,
  formatReport,
  matchesPattern,
  parseRenameRule,
  parseRenameRules,
  planRenames,
  requireCleanPlan,
  stripWrappers,
  wrapperPrefixes,
} from "../../src/checkpoint/names/index.js";

const model = ["tok_emb.weight", "layers.0.attn.weight", "layers.1.attn.weight", "norm.weight"];
const expected = new Set(model);
const targets = (names: readonly string[], known: ReadonlySet<string> = expected) => [
  ...canonicalNames(names, known).values(),
];
const thrown = (run: () => unknown): { code: string; message: string; details: Record<string, unknown> } => {
  try {
    run();
  } catch (error) {
    return error as ReturnType<typeof thrown>;
  }
  throw new Error("nothing was thrown");
};

describe("wrapper prefixes", () => {
  it("in front, in any order and number, are taken away", () => {
    const stacks = fc.array(fc.constantFrom(...wrapperPrefixes), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(stacks, (stack) => {
        expect(targets(model.map((name) => stack.join("") + name))).toEqual(model);
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  it("inside, different for every name, are taken away", () => {
    const place = fc.record({ at: fc.nat(3), prefix: fc.constantFrom(...wrapperPrefixes) });
    fc.assert(
      fc.property(fc.array(fc.array(place, { maxLength: 4 }), { minLength: 4, maxLength: 4 }), (places) => {
        const wrapped = model.map((name, i) => {
          const parts = name.split(".");
          for (const { at, prefix } of places[i]!) parts.splice(at % parts.length, 0, prefix.slice(0, -1));
          return parts.join(".");
        });
        expect(targets(wrapped)).toEqual(model);
      }),
      { seed: 2, numRuns: 300 },
    );
  });

  it("stay where the model really has such parts", () => {
    const own = new Set(["module.weight", "module.module.weight", "weight"]);
    expect(targets([...own], own)).toEqual([...own]);
    expect(targets(["module.weight"], own)).toEqual(["module.weight"]);
    // The whole of it wrapped once more is as clear.
    expect(
      targets(
        [...own].map((name) => `_orig_mod.module.${name}`),
        own,
      ),
    ).toEqual([...own]);
  });

  it("that could mean several tensors are an error", () => {
    const own = new Set(["module.w", "w", "b"]);
    const error = thrown(() => canonicalNames(["module.module.w", "_orig_mod.b"], own));
    expect(error).toMatchObject({ code: "checkpoint.ambiguous", exitCode: 4 });
    expect(error.message).toContain("module.module.w could be module.w or w");
  });

  it("that make two tensors one are an error", () => {
    const error = thrown(() => canonicalNames(["module.norm.weight", "norm.weight"], expected));
    expect(error).toMatchObject({ code: "checkpoint.collision" });
    expect(error.message).toContain("norm.weight ← module.norm.weight, norm.weight");
  });

  it("leave alone what fits nowhere, for the policy to judge", () => {
    expect(targets(["module.norm.weight", "module.head.weight"])).toEqual([
      "norm.weight",
      "module.head.weight",
    ]);
  });

  it("are never the tensor's own name, and never half of one", () => {
    expect([
      ...stripWrappers(["a.module", "modules.a", "my_orig_mod.a", "base_model.a", "module._orig_mod.a"]),
    ]).toEqual([
      ["a.module", "a.module"],
      ["modules.a", "modules.a"],
      ["my_orig_mod.a", "my_orig_mod.a"],
      ["base_model.a", "base_model.a"],
      ["module._orig_mod.a", "a"],
    ]);
    expect(thrown(() => stripWrappers(["module.a", "a"])).code).toBe("checkpoint.collision");
  });
});

describe("renaming rules", () => {
  const rules = parseRenameRules([
    { exact: "wte", to: "tok_emb" },
    "prefix:h.=>layers.",
    { pattern: "(?<rest>.*)\\.gamma", to: "$<rest>.weight" },
    { prefix: "", to: "transformer." },
  ]);

  it("are applied in order, each to what the ones before made of a name", () => {
    const plan = planRenames(["wte", "h.0.gamma", "other"], rules);
    expect([...requireCleanPlan(plan)]).toEqual([
      ["wte", "transformer.tok_emb"],
      ["h.0.gamma", "transformer.layers.0.weight"],
      ["other", "transformer.other"],
    ]);
    expect(plan.matches.map(({ count }) => count)).toEqual([1, 1, 1, 3]);
    expect(formatPlan(plan)).toBe(
      "wte       → transformer.tok_emb\nh.0.gamma → transformer.layers.0.weight\n" +
        "other     → transformer.other\n3 of 3 names change\n",
    );
  });

  it("that rename nothing are an error, shown by a dry run", () => {
    const plan = planRenames(["a"], [parseRenameRule("b=>c"), parseRenameRule("a=>d")]);
    expect(formatPlan(plan)).toContain("rules that rename nothing (1):\n  exact:b=>c");
    expect(thrown(() => requireCleanPlan(plan))).toMatchObject({
      code: "checkpoint.unused_rule",
      details: { unusedRules: ["exact:b=>c"] },
    });
  });

  it("that let two names meet are an error", () => {
    const plan = planRenames(["x.1", "x.2", "y"], [parseRenameRule("pattern:x\\.[12]=>y")]);
    expect(thrown(() => requireCleanPlan(plan))).toMatchObject({
      code: "checkpoint.collision",
      details: { collisions: ["y ← x.1, x.2, y"] },
    });
  });

  it("match whole names by patterns, and literally otherwise", () => {
    const change = (rule: string, name: string) =>
      planRenames([name], [parseRenameRule(rule)]).mapping.get(name);
    expect(change("pattern:b=>c", "abc")).toBe("abc");
    expect(change("exact:a.c=>d", "abc")).toBe("abc");
    expect(change("prefix:a.=>$1", "a.b")).toBe("$1b");
  });

  it.each([
    "a",
    "=>b",
    "a=>",
    "pattern:(=>a",
    { exact: "a" },
    { exact: "a", prefix: "b", to: "c" },
    { to: "a" },
    3,
    null,
  ])("%j is refused", (rule) => {
    expect(thrown(() => parseRenameRules([rule]))).toMatchObject({
      code: "checkpoint.invalid_rule",
      exitCode: 2,
    });
  });
});

describe("the load policy", () => {
  const tensor = (...names: string[]): ExpectedTensor => ({ names, dtype: "float32", shape: [2] });
  const found = (...names: string[]) =>
    new Map(names.map((name) => [name, { dtype: "float32", shape: [2] }]));
  const wanted = [tensor("a"), tensor("b", "tied.b"), tensor("c")];

  it("is strict by default: whatever differs is named, and nothing is loaded", () => {
    const tensors = new Map([...found("a", "d"), ["b", { dtype: "float32", shape: [3] }]]);
    const error = thrown(() => checkFit(wanted, tensors));
    expect(error).toMatchObject({ code: "checkpoint.does_not_fit", exitCode: 4 });
    expect(error.details).toMatchObject({
      missing: ["c"],
      unexpected: ["d"],
      mismatched: [{ name: "b", expected: "float32[2]", found: "float32[3]" }],
    });
    for (const part of [
      "missing (1):\n  c",
      "unexpected (1):\n  d",
      "b: model has float32[2], the file float32[3]",
    ])
      expect(error.message).toContain(part);
  });

  it("takes one name of a tied tensor for all", () => {
    expect(checkFit(wanted, found("a", "tied.b", "c"))).toMatchObject({
      loaded: ["a", "tied.b", "c"],
      initial: [],
    });
  });

  it("allows by pattern, and the report keeps all of it", () => {
    const tensors = new Map([...found("a", "d.1"), ["b", { dtype: "int32", shape: [2] }]]);
    const policy = { allowMissing: ["c", "zz*"], allowUnexpected: ["d.*"], allowMismatch: ["b"] };
    const report = checkFit(wanted, tensors, policy, [{ from: "module.a", to: "a" }]);
    expect(report).toEqual({
      loaded: ["a"],
      missing: ["c"],
      unexpected: ["d.1"],
      mismatched: [{ name: "b", expected: "float32[2]", found: "int32[2]" }],
      initial: ["b", "tied.b", "c"],
      renamed: [{ from: "module.a", to: "a" }],
      unusedPatterns: ["allow-missing zz*"],
    });
    for (const line of [
      "tensors loaded: 1",
      "module.a → a",
      "left at their initial values (3):",
      "allow-missing zz*",
    ])
      expect(formatReport(report)).toContain(line);
  });

  it("allows each kind by its own patterns only", () => {
    const policy = { allowUnexpected: ["*"], allowMismatch: ["*"] };
    expect(thrown(() => checkFit(wanted, found("a", "b"), policy)).details).toMatchObject({ missing: ["c"] });
  });

  it("has patterns in which only * is special", () => {
    const pairs: [string, string, boolean][] = [
      ["a.*", "a.b.c", true],
      ["a.*", "axb", false],
      ["*", "", true],
      ["[ab]+(.)", "[ab]+(.)", true],
      ["a", "ab", false],
    ];
    for (const [pattern, name, matches] of pairs)
      expect([pattern, matchesPattern(pattern, name)]).toEqual([pattern, matches]);
  });
});
