// Section `compat`: the switches of the compatibility table, all off by default.

import type * as z from "zod";
import { type CompatSwitchKey, compatSwitches } from "../compat-table.js";
import { defineSection, field, flag } from "../field.js";

type CompatShape = Readonly<Record<CompatSwitchKey, z.ZodDefault<z.ZodBoolean>>>;

export const compat = defineSection({
  name: "compat",
  summary: 'Behaviour of the Python system, switch by switch; "none" and "python" set them all.',
  shape: Object.fromEntries(
    compatSwitches.map((entry) => [entry.key, field(flag(), entry.default, entry.meaning)]),
  ) as CompatShape,
});
