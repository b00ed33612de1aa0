// Learning-rate schedules: pure functions from the number of updates done to a factor of the peak rate, and how one
// goes on when a resumed run ends elsewhere.

export {
  buildSchedule,
  type CustomCurve,
  customScheduleNames,
  type DecayShape,
  decayShapes,
  registerSchedule,
  type Schedule,
  type ScheduleName,
  type ScheduleOptions,
  scheduleNames,
} from "./curve.js";
export { checkSchedule, type MovedEnd, movedEnds, RunSchedule, type SavedSchedule } from "./run-schedule.js";
