// With `--import`: this process's wall clock is wrong by CGN_TEST_SKEW_MS, as a host's is without NTP. Intervals are right.
const offset = Number(process.env.CGN_TEST_SKEW_MS ?? 0);
const RealDate = Date;
const now = () => RealDate.now() + offset;

globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(now());
    else super(...args);
  }
  static now() {
    return now();
  }
};
