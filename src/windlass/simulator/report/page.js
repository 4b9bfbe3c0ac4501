"use strict";
// Everything is readable without this: it moves a cursor through time and shows the reason of a decision at its mark.
for (const section of document.querySelectorAll("section")) {
  const source = section.querySelector(":scope > script.data");
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  const plots = [...section.querySelectorAll(".plot")];
  const lanes = section.querySelector(".lanes");
  let at = -1;

  const spell = {
    count: (value) => value.toLocaleString("en", { maximumFractionDigits: 1 }),
    share: (value) => `${Math.round(value * 100)}%`,
    money: (value) => `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`,
  };
  const samples = () => data.charts[plots[0].parentElement.dataset.chart].values[0].length;
  const moment = (seconds) => {
    const day = Math.floor(seconds / 86400), rest = seconds - day * 86400;
    const two = (number) => String(Math.floor(number)).padStart(2, "0");
    const clock = `${two(rest / 3600)}:${two((rest % 3600) / 60)}`;
    return data.lastsSeconds > 86400 ? `day ${day + 1} ${clock}` : clock;
  };

  // The cursor: one moment in all plots of the section.
  const show = (sample) => {
    at = Math.max(0, Math.min(samples() - 1, sample));
    for (const plot of plots) {
      const { unit, values } = data.charts[plot.parentElement.dataset.chart];
      const cursor = plot.querySelector(".cursor");
      cursor.style.display = "block";
      cursor.style.left = `${(100 * at) / Math.max(1, samples() - 1)}%`;
      plot.parentElement.querySelectorAll(".keys b").forEach((key, i) => {
        key.textContent = spell[unit](values[i][at]);
      });
      plot.title = moment(at * data.everySeconds);
    }
  };
  const hide = () => {
    for (const plot of plots) {
      plot.querySelector(".cursor").style.display = "none";
      plot.parentElement.querySelectorAll(".keys b").forEach((key) => (key.textContent = ""));
    }
  };
  for (const plot of plots) {
    const follow = (event) => {
      const box = plot.getBoundingClientRect();
      show(Math.round(((event.clientX - box.left) / box.width) * (samples() - 1)));
    };
    plot.addEventListener("pointermove", follow);
    plot.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(at + step * (event.shiftKey ? 30 : 5));
    });
  }

  // Marks of decisions.
  if (!lanes) continue;
  const run = lanes.parentElement.dataset.run;
  const marks = [...lanes.querySelectorAll(".lane i")].sort((one, other) => one.dataset.d - other.dataset.d);
  const tip = lanes.querySelector(".tip");
  let chosen = -1;
  const leave = () => {
    if (marks[chosen]) marks[chosen].classList.remove("on");
    tip.hidden = true;
  };
  const choose = (index) => {
    leave();
    chosen = Math.max(0, Math.min(marks.length - 1, index));
    const mark = marks[chosen];
    if (!mark) return;
    mark.classList.add("on");
    const [when, said, why] = document.getElementById(`d${run}-${mark.dataset.d}`).cells;
    tip.replaceChildren();
    const head = document.createElement("b"), time = document.createElement("span"), reason = document.createElement("p");
    head.textContent = said.textContent;
    time.textContent = `at ${when.textContent}`;
    reason.textContent = why.textContent;
    tip.append(head, time, reason);
    tip.hidden = false;
    const box = lanes.getBoundingClientRect(), there = mark.getBoundingClientRect();
    const left = there.left - box.left - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(0, Math.min(box.width - tip.offsetWidth, left))}px`;
    const row = document.getElementById(`d${run}-${mark.dataset.d}`);
    show(Math.round(row.dataset.at / data.everySeconds));
  };
  const near = (event) => {
    const lane = event.target.closest(".lane");
    if (!lane || lane.classList.contains("story")) return leave();
    let best = -1, distance = 14;
    for (const mark of lane.querySelectorAll("i")) {
      const box = mark.getBoundingClientRect();
      const away = Math.abs(box.left + box.width / 2 - event.clientX);
      if (away < distance) [best, distance] = [Number(mark.dataset.d), away];
    }
    if (best < 0) return leave();
    choose(marks.findIndex((mark) => Number(mark.dataset.d) === best));
  };
  lanes.addEventListener("pointermove", near);
  lanes.addEventListener("pointerdown", near);
  lanes.addEventListener("pointerleave", () => { leave(); hide(); });
  lanes.addEventListener("blur", () => { leave(); hide(); });
  lanes.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (step) { event.preventDefault(); choose(chosen + step); }
    if (event.key === "Escape") leave();
    if (event.key === "Home") { event.preventDefault(); choose(0); }
    if (event.key === "End") { event.preventDefault(); choose(marks.length - 1); }
  });
}
