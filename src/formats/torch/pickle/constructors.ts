// The functions that a pickle of tensors may call, as functions of ours that only build plain data. Whatever is
// not here cannot be called. Arguments come from the file and are checked one by one.

import { TorchDtypeValue, TorchStorage, TorchTensor, type TorchValue } from "../values.js";
import { type CallContext, describeItem, type Item, PickleClass, PickleFunction } from "./items.js";
import { buildNumpyState, numpyConstructors } from "./numpy.js";
import { makeTensor } from "./tensors.js";

type Constructor = PickleFunction["call"];

function orderedDict(args: readonly Item[], context: CallContext): TorchValue {
  const map = context.ordered();
  const [pairs = []] = args;
  if (args.length > 1 || !Array.isArray(pairs)) context.fail("pickle", "OrderedDict needs a list of pairs");
  for (const pair of pairs as readonly Item[]) {
    if (!Array.isArray(pair) || pair.length !== 2)
      context.fail("pickle", "OrderedDict has an item that is no pair");
    context.setItem(map, (pair as Item[])[0]!, (pair as Item[])[1]!);
  }
  return map;
}

function defaultDict(args: readonly Item[], context: CallContext): TorchValue {
  const [factory = null] = args;
  const isHarmless =
    factory === null || (factory instanceof PickleClass && factory.name.startsWith("builtins."));
  if (args.length > 1 || !isHarmless)
    context.fail("forbidden_call", `a defaultdict wants to call ${describeItem(factory)} for absent keys`);
  return new Map();
}

function counter(args: readonly Item[], context: CallContext): TorchValue {
  const [counts = new Map()] = args;
  if (args.length > 1 || !(counts instanceof Map)) context.fail("pickle", "Counter needs a dict of counts");
  return new Map(counts);
}

function makeSet(args: readonly Item[], context: CallContext): TorchValue {
  const [items = []] = args;
  if (args.length > 1 || !Array.isArray(items)) context.fail("pickle", "a set needs a list of its items");
  return new Set((items as readonly Item[]).map((item) => context.plain(item)));
}

/** How protocol 2 writes bytes: text of the characters 0 to 255, and the name of that encoding. */
function encodeText([text, encoding]: readonly Item[], context: CallContext): TorchValue {
  if (typeof text !== "string" || !["latin1", "latin-1"].includes(encoding as string))
    context.fail("forbidden_call", `this file wants to call _codecs.encode with ${describeItem(encoding)}`);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 255) context.fail("pickle", "bytes written as text have a character above 255");
    bytes[i] = unit;
  }
  return bytes;
}

function byteArray(args: readonly Item[], context: CallContext): TorchValue {
  if (args.length === 0) return new Uint8Array(0);
  return args[0] instanceof Uint8Array ? args[0].slice() : encodeText(args, context);
}

function torchSize([sizes]: readonly Item[], context: CallContext): TorchValue {
  if (!Array.isArray(sizes)) context.fail("pickle", "torch.Size needs a tuple of sizes");
  return context.tuple((sizes as readonly Item[]).map((item) => context.plain(item)));
}

function torchDevice([type, index]: readonly Item[], context: CallContext): TorchValue {
  if (typeof type !== "string") context.fail("pickle", "torch.device needs the name of a device");
  return index === undefined || index === null ? type : `${type}:${String(index)}`;
}

/** (storage, offset, size, stride[, requires_grad, backward_hooks[, metadata]]) */
function rebuildTensor(args: readonly Item[], context: CallContext): TorchTensor {
  const [storage, offset, size, strides, requiresGrad = false, hooks = null, metadata = null] = args;
  if (!(storage instanceof TorchStorage))
    context.fail("tensor", `a tensor is made from ${describeItem(storage)}, not from a storage`);
  if (storage.dtype === undefined)
    context.fail("tensor", `storage ${storage.key} has no element type, and the tensor names none`);
  checkExtras(hooks, metadata, context);
  return makeTensor({ storage, dtype: storage.dtype, offset, size, strides, requiresGrad }, context);
}

/** Like the one above, with an element type of the tensor's own before the metadata. */
function rebuildTypedTensor(args: readonly Item[], context: CallContext): TorchTensor {
  const [storage, offset, size, strides, requiresGrad, hooks = null, dtype, metadata = null] = args;
  if (!(storage instanceof TorchStorage))
    context.fail("tensor", `a tensor is made from ${describeItem(storage)}, not from a storage`);
  if (!(dtype instanceof TorchDtypeValue))
    context.fail("tensor", `the element type of a tensor is ${describeItem(dtype)}`);
  checkExtras(hooks, metadata, context);
  return makeTensor({ storage, dtype: dtype.dtype, offset, size, strides, requiresGrad }, context);
}

/** Hooks are functions; conjugated and negated views hold other numbers than their storage. */
function checkExtras(hooks: Item, metadata: Item, context: CallContext): void {
  if (hooks !== null && !(hooks instanceof Map && hooks.size === 0))
    context.fail("forbidden_call", "this file wants to call backward hooks of a tensor");
  if (
    metadata === null ||
    (metadata instanceof Map && [...metadata.values()].every((value) => value === false))
  )
    return;
  context.fail(
    "unsupported",
    "a tensor is a conjugated or negated view; save a clone of it (tensor.resolve_conj())",
  );
}

function rebuildParameter([tensor, requiresGrad, hooks = null]: readonly Item[], context: CallContext): Item {
  if (!(tensor instanceof TorchTensor))
    context.fail("tensor", `a parameter is made from ${describeItem(tensor)}, not from a tensor`);
  checkExtras(hooks, null, context);
  const { storage, dtype, shape, strides, storageOffset } = tensor;
  return new TorchTensor(storage, dtype, shape, strides, storageOffset, requiresGrad === true);
}

/** A tensor with Python attributes: (function, class, arguments, attributes). The attributes are dropped. */
function rebuildWithAttributes(args: readonly Item[], context: CallContext): Item {
  const [rebuild, type, inner] = args;
  const isPlain =
    type instanceof PickleClass && /^torch\.(Tensor|nn\.parameter\.(Parameter|Buffer))$/.test(type.name);
  if (!(rebuild instanceof PickleFunction) || !rebuild.name.startsWith("torch._utils._rebuild_") || !isPlain)
    context.fail(
      "forbidden_call",
      `this file wants to call ${describeItem(rebuild)} to make ${describeItem(type)}; nothing was run`,
    );
  if (!context.isTuple(inner)) context.fail("pickle", "the arguments of a tensor are no tuple");
  return rebuild.call(inner, context);
}

const unsupported =
  (what: string): Constructor =>
  (_, context) =>
    context.fail("unsupported", `the file holds ${what}, which this reader does not read`);

/** By module and name, in the names of Python 3. */
export const constructors: Readonly<Record<string, Readonly<Record<string, Constructor>>>> = {
  collections: { OrderedDict: orderedDict, defaultdict: defaultDict, Counter: counter },
  builtins: { set: makeSet, frozenset: makeSet, bytearray: byteArray },
  _codecs: { encode: encodeText },
  torch: { Size: torchSize, device: torchDevice },
  "torch._utils": {
    _rebuild_tensor: rebuildTensor,
    _rebuild_tensor_v2: rebuildTensor,
    _rebuild_tensor_v3: rebuildTypedTensor,
    _rebuild_parameter: rebuildParameter,
    _rebuild_parameter_with_state: rebuildParameter,
    _rebuild_qtensor: unsupported("a quantised tensor (torch._utils._rebuild_qtensor)"),
    _rebuild_sparse_tensor: unsupported("a sparse tensor (torch._utils._rebuild_sparse_tensor)"),
    _rebuild_nested_tensor: unsupported("a nested tensor (torch._utils._rebuild_nested_tensor)"),
    _rebuild_meta_tensor_no_storage: unsupported(
      "a meta tensor without data (torch._utils._rebuild_meta_tensor_no_storage)",
    ),
    _rebuild_wrapper_subclass: unsupported("a tensor subclass (torch._utils._rebuild_wrapper_subclass)"),
  },
  "torch._tensor": { _rebuild_from_type_v2: rebuildWithAttributes },
  ...numpyConstructors,
};

/**
 * BUILD: sets the state of an object. Only attributes of ordered dicts (state dicts carry versions there, which are
 * dropped) and the contents of numpy arrays are. False for every other object.
 */
export function buildObject(target: Item, state: Item, context: CallContext): boolean {
  if (context.isOrdered(target) && state instanceof Map) return true;
  return buildNumpyState(target, state, context);
}
