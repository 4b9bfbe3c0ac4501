// Amounts and times as people read them; the same words as on the command line.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** Two units at most: 45s, 3m20s, 2h5m, 3d4h. */
export function lasting(seconds) {
  const whole = Math.round(Math.max(seconds, 0));
  for (let i = 0; i < UNITS.length - 1; i++) {
    const [unit, size] = UNITS[i], [lesser, part] = UNITS[i + 1];
    if (whole >= size) {
      const rest = Math.floor((whole % size) / part);
      return `${Math.floor(whole / size)}${unit}${rest ? rest + lesser : ""}`;
    }
  }
  return `${whole}s`;
}

const iso = (at_s) => new Date(at_s * 1000).toISOString();
/** 02:31:23 */
export const clock = (at_s) => iso(at_s).slice(11, 19);
/** 16 Nov 02:31:23 UTC */
export function moment(at_s) {
  const day = new Date(at_s * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  return `${day} ${clock(at_s)} UTC`;
}

export const share = (fraction) => `${Math.round(fraction * 100)} %`;
export const whole = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 0 });
export const count = (number, thing) => `${whole(number)} ${thing}${number === 1 ? "" : "s"}`;

/** Prices have no currency here: they are in whatever the groups' annotations are. */
export function money(value) {
  const digits = value >= 1000 ? 0 : value >= 100 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A group's id without its kind and namespace. */
export const short = (group) => group.slice(group.lastIndexOf("/") + 1);

const BYTES = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
function quantity(resource, amount) {
  if (resource === "cpu") return amount % 1000 ? `${amount}m` : `${amount / 1000}`;
  if (resource !== "memory" && resource !== "ephemeral-storage") return `${amount}`;
  let unit = 0;
  for (; amount >= 1024 && unit < BYTES.length - 1; unit++) amount /= 1024;
  return `${+amount.toFixed(1)}${BYTES[unit]}`;
}

/** cpu 500m, memory 2Gi */
export const requests = (asked) =>
  Object.entries(asked ?? {}).map(([name, amount]) => `${name} ${quantity(name, amount)}`).join(", ") || "nothing";
