import { EventLog } from "../../../core/log/event-log.ts";
import { Miss } from "../../../core/log/miss-reasons.ts";

/** One event of each kind, in the order of the codes; every number is different. */
export function everyKind(): EventLog {
  const log = new EventLog();
  log.admit(1, 2, 3, 4);
  log.hit(5, 6, 7, 8, 9);
  log.adopt(10, 11, 12, 13, 14);
  log.miss(15, 16, 17, Miss.pastHole);
  log.evict(18, 19, 20, 21, 22);
  log.allocate(23, 24, 25, 26);
  log.copy(27, 28, 29, 30, 31);
  log.step(32, 33, 34);
  log.publish(35, 36, 37, 38, 39);
  log.duplicate(40, 41, 42, 43, 44);
  log.release(45, 46, 47, true);
  log.finish(48, 49, 50);
  log.refuse(51, 52);
  log.preempt(53, 54);
  log.drop(55, 56, 57, 58, 59);
  log.clear(60, 61);
  log.pin(62, -63, 64, 65, 66);
  log.unpin(67, -68);
  log.swapOut(69, 70, 71, 72);
  log.swapIn(73, 74, 75, 76);
  log.send(77, 78, 79, 80);
  log.receive(81, 82, 83, 84);
  log.trim(85, 86, 87, 88);
  log.signal(89, 90, 91, "expect");
  return log;
}
