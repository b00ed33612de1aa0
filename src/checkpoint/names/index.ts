// Names of tensors: what wrappers did to them undone, rules of the user, and whether they fit. Pure and portable.

export {
  checkFit,
  type ExpectedTensor,
  type FitReport,
  formatReport,
  type LoadPolicy,
  type MismatchedTensor,
  matchesPattern,
  type TensorShape,
} from "./policy.js";
export {
  describeRule,
  formatPlan,
  parseRenameRule,
  parseRenameRules,
  planRenames,
  type RenamePlan,
  type RenameRule,
  requireCleanPlan,
} from "./rules.js";
export {
  canonicalNames,
  type NameMapping,
  refuseCollisions,
  stripWrappers,
  wrapperPrefixes,
} from "./wrappers.js";
