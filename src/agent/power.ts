/** What something draws now, and what it may draw. */
export interface PowerReading {
  readonly watts: number;
  /** Undefined: it is not told. */
  readonly limitWatts?: number;
}

/** Readings of one moment. GPUs by index; `host` for what is known of the host as a whole. */
export interface PowerReadings {
  readonly gpus: ReadonlyMap<number, PowerReading>;
  readonly host?: PowerReading;
}

/** A way to read power. */
export interface PowerSource {
  readonly name: "nvidia-smi" | "redfish" | "rapl";
  /** @throws Error why it cannot be read here */
  read(): Promise<PowerReadings>;
}

/** One reading of several: they share what they may draw. Without any limit the head-room is not known. */
export function sumPower(readings: readonly PowerReading[]): PowerReading | undefined {
  if (readings.length === 0) return undefined;
  const watts = readings.reduce((sum, each) => sum + each.watts, 0);
  const limits = readings.flatMap(({ limitWatts }) => (limitWatts === undefined ? [] : [limitWatts]));
  return limits.length < readings.length
    ? { watts }
    : { watts, limitWatts: limits.reduce((sum, each) => sum + each, 0) };
}

/** Share of the limit that is not drawn, 0 to 1; undefined without a limit. */
export function headroomOf({ watts, limitWatts }: PowerReading): number | undefined {
  if (limitWatts === undefined || limitWatts <= 0) return undefined;
  return Math.min(1, Math.max(0, 1 - watts / limitWatts));
}
