import { Device } from "./device.ts";
import { driverFile } from "./driver.ts";

/** By driver file: the device as the calling thread uses it for queries. It is never closed: creating a context is slow. */
const opened = new Map<string, Device>();

/** The first device, for queries. @throws UnavailableError of one line if there is no driver or no device */
export function probedDevice(): Device {
  const file = driverFile();
  const device = opened.get(file) ?? Device.open();
  opened.set(file, device);
  return device;
}

/** The backend's name in reports. */
export function reportedName(): "cuda" | "cuda-emulated" {
  try {
    return probedDevice().isEmulated ? "cuda-emulated" : "cuda";
  } catch {
    return "cuda";
  }
}
