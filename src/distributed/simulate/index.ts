// Public surface of the simulation.

export { FAULT_NAMES, FAULTS, type FaultName, parseFaults } from "./faults.js";
export { INVARIANTS, type InvariantName, type Violation } from "./invariants.js";
export { formatReport, formatViolation, replayCommand, type SimulationReport } from "./report.js";
export { type SimulationOptions, simulateFleet } from "./simulate-fleet.js";
