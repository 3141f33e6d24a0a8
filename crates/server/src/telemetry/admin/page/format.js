// Numbers as people read them. All of these take numbers, or null for what is not known.

const NONE = "–";

/** A count or a rate: 950, 12.3 k, 4.56 M. */
export function short(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return NONE;
  for (const [unit, of] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(number) >= of * 9.995) return `${significant(number / of)} ${unit}`;
  }
  return number >= 100 || Number.isInteger(number) ? String(Math.round(number)) : significant(number);
}

function significant(number) {
  const digits = Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
  return String(Number(number.toFixed(digits)));
}

/** Bytes in binary units. */
export function bytes(number) {
  if (number === null || number === undefined) return NONE;
  for (const [unit, of] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (number >= of) return `${significant(number / of)} ${unit}`;
  }
  return `${Math.round(number)} B`;
}

/** Microseconds. */
export function duration(us) {
  if (us === null || us === undefined) return NONE;
  if (us < 1000) return `${significant(us)} µs`;
  return us < 1e6 ? `${significant(us / 1e3)} ms` : `${significant(us / 1e6)} s`;
}

/** A part of one. */
export function percent(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return NONE;
  const of = 100 * part;
  return `${of === 0 || of === 100 ? of : of < 1 ? Number(of.toPrecision(2)) : of.toFixed(1)} %`;
}

/** Seconds as the two largest units. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([of]) => whole >= of);
  if (at < 0) return "0 s";
  const [first, second] = [parts[at], parts[at + 1]];
  const left = second ? Math.floor((whole % first[0]) / second[0]) : 0;
  return `${Math.floor(whole / first[0])} ${first[1]}${left ? ` ${left} ${second[1]}` : ""}`;
}

/** Unix seconds as the time of day where the reader is. */
export function clock(unix, withSeconds = true) {
  const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (withSeconds) parts.second = "2-digit";
  return new Date(unix * 1000).toLocaleTimeString(undefined, parts);
}

/** Unix seconds as a day and a time; only a time if it is of today. */
export function moment(unix, now) {
  const day = (time) => new Date(time * 1000).toLocaleDateString();
  return day(unix) === day(now) ? clock(unix) : `${day(unix)} ${clock(unix)}`;
}
