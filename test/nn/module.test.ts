import { describe, expect, it } from "vitest";
import { Buffer, Linear, Module, ModuleDict, ModuleList, Sequential } from "../../src/nn/index.js";
import { Parameter, relu } from "../../src/tensor/index.js";
import { ModelError } from "../../src/util/errors.js";
import { errorOf, float32 } from "./helpers.js";

const linear = (inputs: number, outputs: number) => new Linear(inputs, outputs, { bias: false });

/** A field before the parameters, to see that own parameters and buffers still come first. */
class Zoo extends Module {
  readonly first = linear(2, 3);
  readonly scale = new Parameter([3]);
  readonly table = new Buffer(float32([2], [5, 6]));
  readonly scratch = new Buffer(float32([1], [0]), { persistent: false });
  readonly list = new ModuleList([linear(3, 3), linear(3, 4)]);
  readonly array = [linear(1, 1), linear(1, 2)];
  readonly dict = new ModuleDict({ left: linear(1, 1), right: linear(2, 1) });
  readonly chain = new Sequential(new Linear(4, 2), relu, linear(2, 2));
  readonly weights = [new Parameter([1]), new Parameter([2])];
  readonly note = "ignored";
}

class Tied extends Module {
  readonly body = new Zoo();
  readonly head = linear(2, 3);

  constructor() {
    super();
    this.head.weight = this.body.first.weight;
  }
}

describe("names", () => {
  it("follow the fields: own parameters, own buffers, then children", () => {
    const zoo = new Zoo();
    expect([...zoo.stateDict()].map(([name, { shape }]) => `${name} [${shape}]`)).toEqual([
      "scale [3]",
      "weights.0 [1]",
      "weights.1 [2]",
      "table [2]",
      "first.weight [3,2]",
      "list.0.weight [3,3]",
      "list.1.weight [4,3]",
      "array.0.weight [1,1]",
      "array.1.weight [2,1]",
      "dict.left.weight [1,1]",
      "dict.right.weight [1,2]",
      "chain.0.weight [2,4]",
      "chain.0.bias [2]",
      "chain.2.weight [2,2]",
    ]);
    expect([...zoo.namedBuffers().keys()]).toEqual(["table", "scratch"]);
    expect([...zoo.namedParameters().keys()]).toEqual(
      [...zoo.stateDict().keys()].filter((name) => name !== "table"),
    );
    expect([...zoo.children().keys()]).toEqual(["first", "list", "array.0", "array.1", "dict", "chain"]);
    expect([...zoo.namedModules().keys()].slice(0, 4)).toEqual(["", "first", "list", "list.0"]);
    expect(zoo.parameterCount()).toBe(3 + 3 + 6 + 9 + 12 + 1 + 2 + 1 + 2 + 8 + 2 + 4);
  });

  it("give a shared parameter its first name, and the state dict all its names", () => {
    const tied = new Tied();
    expect([...tied.namedParameters().keys()]).not.toContain("head.weight");
    expect([...tied.stateDict().keys()].at(-1)).toBe("head.weight");
    expect(tied.stateDict().get("head.weight")?.data).toBe(tied.body.first.weight.data);
    expect(tied.parameterCount()).toBe(new Zoo().parameterCount());
  });

  it("count a shared module once", () => {
    const shared = linear(2, 2);
    const list = new ModuleList([shared, shared]);
    expect([...list.namedParameters().keys()]).toEqual(["0.weight"]);
    expect([...list.stateDict().keys()]).toEqual(["0.weight", "1.weight"]);
  });

  it("refuse keys that would break them, and modules that contain themselves", () => {
    expect(() => new ModuleDict({ "a.b": linear(1, 1) })).toThrow(
      /"a\.b" must not be empty nor contain a dot/,
    );
    class Loop extends Module {
      self: Module = this;
    }
    expect(() => new Loop().stateDict()).toThrow(/contains itself/);
    expect(new Loop().namedModules().size).toBe(1);
  });
});

describe("loadStateDict", () => {
  const filled = () => {
    const source = new Tied();
    let next = 0;
    for (const parameter of source.namedParameters().values())
      for (let i = 0; i < parameter.data.length; i++) parameter.data[i] = ++next;
    source.body.table.value.data.set([8, 9]);
    return source;
  };

  it("copies everything into the arrays that are there, under all names", () => {
    const source = filled();
    const target = new Tied();
    const before = target.body.first.weight.data;
    const report = target.loadStateDict(source.stateDict());
    expect(report).toEqual({
      loaded: [...source.stateDict().keys()],
      missing: [],
      unexpected: [],
      mismatched: [],
    });
    expect(target.stateDict()).toEqual(source.stateDict());
    expect(target.body.first.weight.data).toBe(before);
    source.body.scale.data[0] = -1;
    expect(target.body.scale.data[0]).toBe(1);
  });

  it("lists all that does not fit, and then changes nothing", () => {
    const state = filled().stateDict();
    state.delete("body.scale");
    state.set("body.scael", float32([3], [1, 2, 3]));
    state.set("body.first.weight", float32([2, 3], [1, 2, 3, 4, 5, 6]));
    state.set("body.table", { dtype: "int32", shape: [2], data: Int32Array.of(1, 2) });
    const target = new Tied();
    const error = errorOf(() => target.loadStateDict(state));
    expect(error).toBeInstanceOf(ModelError);
    expect((error as ModelError).code).toBe("model.state_dict");
    expect((error as ModelError).details).toEqual({
      missing: ["body.scale"],
      unexpected: ["body.scael"],
      mismatched: [
        { name: "body.table", expected: "float32[2]", found: "int32[2]" },
        { name: "body.first.weight", expected: "float32[3, 2]", found: "float32[2, 3]" },
      ],
    });
    expect((error as ModelError).message).toContain('body.scael (did you mean "body.scale"?)');
    expect(target.stateDict()).toEqual(new Tied().stateDict());
  });

  it("loads what fits when not strict, and reports the rest", () => {
    const target = new Zoo();
    const report = target.loadStateDict(
      new Map([
        ["scale", float32([3], [1, 2, 3])],
        ["weights.1", float32([3], [1, 2, 3])],
        ["other", float32([1], [1])],
      ]),
      { strict: false },
    );
    expect(report.loaded).toEqual(["scale"]);
    expect(report.unexpected).toEqual(["other"]);
    expect(report.mismatched).toEqual([{ name: "weights.1", expected: "float32[2]", found: "float32[3]" }]);
    expect(report.missing).toEqual(
      [...target.stateDict().keys()].filter((name) => name !== "scale" && name !== "weights.1"),
    );
    expect([...target.scale.data]).toEqual([1, 2, 3]);
    expect([...target.weights[1]!.data]).toEqual([0, 0]);
  });

  it("takes one name for a tied tensor, and refuses different values under two", () => {
    const source = filled();
    for (const absent of ["head.weight", "body.first.weight"]) {
      const state = source.stateDict();
      state.delete(absent);
      const target = new Tied();
      expect(target.loadStateDict(state).missing).toEqual([]);
      expect(target.stateDict()).toEqual(source.stateDict());
    }
    const state = source.stateDict();
    state.set("head.weight", float32([3, 2], [0, 0, 0, 0, 0, 1]));
    const target = new Tied();
    for (const strict of [true, false])
      expect(() => target.loadStateDict(state, { strict })).toThrow(
        /"body.first.weight" and "head.weight" are one tied tensor/,
      );
    expect(target.stateDict()).toEqual(new Tied().stateDict());
  });

  it("narrows other floating-point dtypes for a parameter", () => {
    const target = linear(1, 2);
    target.loadStateDict(
      new Map([["weight", { dtype: "float64", shape: [2, 1], data: Float64Array.of(0.1, 2) }]]),
    );
    expect([...target.weight.data]).toEqual([Math.fround(0.1), 2]);
  });
});
