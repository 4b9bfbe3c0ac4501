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

const options = { zone: "utc", currency: "" };
/** Times are written in UTC, or in the zone of the browser ("local"). */
export const setZone = (zone) => { options.zone = zone; };
/** Written with every cost; empty: costs have no unit. */
export const setCurrency = (currency) => { options.currency = currency; };

const parts = (at_s) => {
  const date = new Date(at_s * 1000);
  // Local time is written as if it were UTC, so that one way of writing is enough.
  return options.zone === "local" ? new Date(date - date.getTimezoneOffset() * 60000) : date;
};
const iso = (at_s) => parts(at_s).toISOString();

/** UTC, or the browser's zone at that time: UTC+1 */
export function zoneName(at_s) {
  if (options.zone !== "local") return "UTC";
  const minutes = -new Date(at_s * 1000).getTimezoneOffset();
  const hours = Math.floor(Math.abs(minutes) / 60), rest = Math.abs(minutes) % 60;
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

/** 02:31:23 */
export const clock = (at_s) => iso(at_s).slice(11, 19);
/** 02:31 */
export const hourMinute = (at_s) => iso(at_s).slice(11, 16);
/** 16 Nov */
export const day = (at_s) => parts(at_s).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
/** 16 Nov 02:31:23 UTC */
export const moment = (at_s) => `${day(at_s)} ${clock(at_s)} ${zoneName(at_s)}`;

/** 16 Nov 2026 13:00:00 – 14:00:00 UTC */
export function period(from_s, to_s) {
  const year = (at_s) => `${day(at_s)} ${iso(at_s).slice(0, 4)}`;
  const later = year(from_s) === year(to_s) ? "" : `${year(to_s)} `;
  return `${year(from_s)} ${clock(from_s)} – ${later}${clock(to_s)} ${zoneName(to_s)}`;
}

export const share = (fraction) => `${Math.round(fraction * 100)} %`;
export const whole = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 0 });
export const count = (number, thing) => `${whole(number)} ${thing}${number === 1 ? "" : "s"}`;

/** The one way to write a cost: `$12.50`, `12.50 EUR`, `1,021`; as formatting.format_money has it. */
export function money(value, isPrice = false) {
  const least = Math.abs(value) >= 1000 ? 0 : 2, { currency } = options;
  const most = least && (isPrice || Math.abs(value) < 0.1) ? 4 : least;
  const text = value.toLocaleString("en-US", { minimumFractionDigits: least, maximumFractionDigits: most });
  return !currency ? text : /^[A-Za-z]/.test(currency) ? `${text} ${currency}` : `${currency}${text}`;
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
