(() => {
  "use strict";
  const given = JSON.parse(document.getElementById("fitdoctor-data").textContent);
  const said = document.getElementById("said");

  // --- copying -----------------------------------------------------------------------------------

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "away";
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) throw new Error("this browser does not let a page copy");
    }
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    const label = button.firstChild;
    button.hidden = false;
    button.addEventListener("click", async () => {
      let word = "Copied";
      try { await copy(given.copies[button.dataset.copy]); } catch { word = "Not copied"; }
      label.textContent = said.textContent = word;
      setTimeout(() => { label.textContent = "Copy"; said.textContent = ""; }, 1500);
    });
  }

  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details:not([open])")) each.open = each.dataset.print = true;
  });
  addEventListener("afterprint", () => {
    for (const each of document.querySelectorAll("details[data-print]")) { each.open = false; delete each.dataset.print; }
  });

  // --- the timeline ------------------------------------------------------------------------------

  const timeline = given.timeline, place = document.querySelector(".charts");
  if (!timeline || !place || typeof uPlot === "undefined") return;

  function decoded(text, Kind) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Kind(bytes.buffer);
  }

  const at = decoded(timeline.gaps, Float64Array);
  for (let i = 0, sum = 0; i < at.length; i++) { sum += at[i]; at[i] = sum / 1e6; }
  const each = decoded(timeline.each, Float32Array), stalls = decoded(timeline.stalls, Uint8Array);
  const stalled = [];
  for (let i = 0; i < stalls.length; i++) if (stalls[i]) stalled.push(i);
  const COLUMNS = 700, SHORTEST = 1e-3, LEFT = 64;
  const view = { min: 0, max: timeline.seconds };

  function first(value) {  // the place of the first step at or after a time
    let low = 0, high = at.length;
    while (low < high) { const mid = (low + high) >> 1; if (at[mid] < value) low = mid + 1; else high = mid; }
    return low;
  }

  function drawn(min, max) {  // the steps of a stretch: each one, or the least and the most of every column
    const from = Math.max(0, first(min) - 1), to = Math.min(at.length, first(max) + 1), count = to - from;
    if (count <= 2 * COLUMNS) {
      const x = [], y = [];
      for (let i = from; i < to; i++) {
        // Where no step ran the line is broken.
        if (i > from && at[i] - at[i - 1] > 0.05 + 2 * each[i - 1] / 1000) { x.push(at[i - 1] + each[i - 1] / 1000); y.push(null); }
        x.push(at[i]); y.push(each[i]);
      }
      return [x, y, y];
    }
    const size = count / COLUMNS, x = [], high = [], low = [];
    for (let column = 0; column < COLUMNS; column++) {
      const start = from + Math.floor(column * size), end = from + Math.floor((column + 1) * size);
      let most = each[start], least = most;
      for (let i = start + 1; i < end; i++) { const v = each[i]; if (v > most) most = v; else if (v < least) least = v; }
      x.push(at[start]); high.push(most); low.push(least);
    }
    return [x, high, low];
  }

  function duration(ms) {
    if (ms >= 1000) return +(ms / 1000).toPrecision(3) + " s";
    return ms >= 1 ? +ms.toPrecision(3) + " ms" : (ms * 1000).toPrecision(3) + " µs";
  }

  function size(bytes) {
    let unit = 0;
    for (; bytes >= 1023.5 && unit < 4; unit++) bytes /= 1024;
    return bytes.toPrecision(3).replace(/\.?0+$/, "") + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
  }

  const words = {
    "ms": duration,
    "cores": (v) => (+v.toFixed(2)) + (+v.toFixed(2) === 1 ? " core" : " cores"),
    "bytes": size,
    "bytes/s": (v) => size(v) + "/s",
    "share": (v) => (100 * v).toFixed(0) + " %",
  };

  let charts = [], colours = {};
  const readout = document.querySelector(".readout");

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  const BINARY = Array.from({ length: 50 }, (_, i) => 2 ** i);

  function axes(format, unit, below) {
    const common = { stroke: colours.soft, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return [
      { ...common, show: below, grid: { show: false }, size: 28, values: (u, splits) => splits.map((v) => +v.toFixed(6) + " s") },
      {
        ...common, size: LEFT, space: 26, values: (u, splits) => splits.map((v) => v === 0 ? "0" : format(v)),
        ...(unit.startsWith("bytes") ? { incrs: BINARY } : {}),
      },
    ];
  }

  function overlay(u) {  // stretches along the bottom, compilations as lines, stalls as dots at the top
    const { ctx, bbox } = u, ratio = devicePixelRatio, x = (v) => u.valToPos(v, "x", true);
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    const height = 7 * ratio, bottom = bbox.top + bbox.height - height;
    for (const [look, start, end] of timeline.bands) {
      if (end < view.min || start > view.max) continue;
      ctx.fillStyle = colours[look];
      ctx.fillRect(x(start), bottom, Math.max(1, x(end) - x(start)), height);
    }
    ctx.fillStyle = colours.ink;
    for (const [start, seconds] of timeline.compiles) {
      if (start + seconds < view.min || start > view.max) continue;
      ctx.globalAlpha = 0.12; ctx.fillRect(x(start), bbox.top, x(start + seconds) - x(start), bbox.height);
      ctx.globalAlpha = 1; ctx.fillRect(x(start), bottom - 6 * ratio, Math.max(ratio, 1), 6 * ratio);
    }
    ctx.fillStyle = colours.accent;
    const top = u.scales.y.max;
    let last = -9;
    for (const i of stalled) {
      if (at[i] < view.min || at[i] > view.max) continue;
      const px = x(at[i]);
      if (px - last < 1.5 * ratio) continue;
      last = px;
      ctx.beginPath();
      ctx.arc(px, u.valToPos(Math.min(each[i], top), "y", true), 3 * ratio, 0, 7);
      ctx.fill();
    }
    ctx.restore();
  }

  function tell(u) {
    const left = u.cursor.left;
    if (left == null || left < 0) return;
    const t = u.posToVal(left, "x"), told = [t.toFixed(2) + " s"];
    const band = timeline.bands.find(([, start, end]) => start <= t && t < end);
    if (band) told.push(band[3]);
    const i = Math.max(0, first(t) - 1);
    if (at.length && at[i] <= t && t <= at[i] + 2 * each[i] / 1000) told.push("step " + duration(each[i]));
    for (const track of timeline.tracks) {
      let near = 0;
      while (near + 1 < track.at.length && track.at[near] < t) near++;
      told.push(track.name + " " + words[track.unit](track.values[near]));
    }
    readout.textContent = told.join(" · ");
  }

  function make(title, height, data, series, unit, top, below, extra) {
    const format = words[unit];
    const box = document.createElement("div"), name = document.createElement("p");
    name.className = "how"; name.textContent = title; name.style.margin = "0.4rem 0 0";
    box.append(name);
    place.append(box);
    const chart = new uPlot({
      width: place.clientWidth, height, padding: [6, 18, below ? 0 : 10, 0],
      legend: { show: false },
      cursor: {
        sync: { key: "fitdoctor" }, y: false, points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => show(0, timeline.seconds) },
      },
      scales: { x: { time: false, range: () => [view.min, view.max] }, y: { range: top } },
      axes: axes(format, unit, below),
      series: [{}, ...series],
      bands: series.length > 1 ? [{ series: [1, 2], fill: series[0].fill }] : undefined,
      hooks: {
        setSelect: [(u) => {
          const { left, width } = u.select;
          if (width < 3) return;
          const min = u.posToVal(left, "x"), max = u.posToVal(left + width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          show(min, max);
        }],
        setCursor: [(u) => { if (u === charts[0]?.plot || !charts.length) tell(u); }],
        ...extra,
      },
    }, data, box);
    return chart;
  }

  function show(min, max) {
    const whole = timeline.seconds, wide = Math.min(whole, Math.max(SHORTEST, max - min));
    view.min = Math.min(Math.max(0, min), whole - wide);
    view.max = view.min + wide;
    for (const { plot, data } of charts) plot.setData(data());
    place.dataset.min = view.min; place.dataset.max = view.max;
  }

  function ceiling(u, low, high) {  // of what is visible; a few steps that stall do not flatten all others
    if (high > 4 * timeline.typical && timeline.typical > 0) {
      const values = u.data[1].filter((value) => value !== null).sort((a, b) => a - b);
      high = Math.min(high, Math.max(2 * timeline.typical, values[Math.floor(0.97 * (values.length - 1))]));
    }
    return [0, 1.12 * (high || 1)];
  }

  function build() {
    for (const { plot } of charts) plot.destroy();
    charts = []; place.replaceChildren();
    colours = {
      ink: colour("--ink"), soft: colour("--soft"), line: colour("--line"), accent: colour("--accent"),
      aside: colour("--band-aside"), steps: colour("--band-steps"), between: colour("--band-between"),
      validation: colour("--band-validation"),
    };
    const line = { stroke: colours.soft, fill: colours.steps + "55", width: 1, points: { show: false } };
    if (at.length) {
      const data = () => drawn(view.min, view.max);
      const plot = make("time per step", 210, data(), [line, { ...line, fill: undefined }], "ms", ceiling, true, { draw: [overlay] });
      charts.push({ plot, data });
    }
    for (const track of timeline.tracks) {
      const data = [track.at, track.values], most = track.limit, last = track === timeline.tracks.at(-1);
      const top = (u, low, high) => [0, most && most >= high ? 1.05 * most : 1.15 * (high || 1)];
      const plot = make(track.name, last ? 96 : 72, data, [{ ...line, width: 1.5 }], track.unit, top, last, charts.length ? {} : { draw: [overlay] });
      charts.push({ plot, data: () => data });
    }
    show(view.min, view.max);
  }

  function move(how) {
    const wide = view.max - view.min, middle = (view.min + view.max) / 2;
    if (how === "in") show(middle - wide / 4, middle + wide / 4);
    else if (how === "out") show(middle - wide, middle + wide);
    else if (how === "left") show(view.min - wide / 4, view.max - wide / 4);
    else if (how === "right") show(view.min + wide / 4, view.max + wide / 4);
    else show(0, timeline.seconds);
  }

  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => move(button.dataset.zoom));
  const keys = { "+": "in", "=": "in", "-": "out", "ArrowLeft": "left", "ArrowRight": "right", "0": "all" };
  place.addEventListener("keydown", (event) => {
    const how = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (how) { event.preventDefault(); move(how); }
  });
  place.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const wide = view.max - view.min, share = (event.clientX - place.getBoundingClientRect().left - LEFT) / (place.clientWidth - LEFT);
    const centre = view.min + wide * Math.min(1, Math.max(0, share)), next = wide * Math.exp(Math.sign(event.deltaY) * 0.3);
    show(centre - next * share, centre + next * (1 - share));
  }, { passive: false });

  for (const part of document.querySelectorAll("#timeline [hidden]")) part.hidden = false;
  document.querySelector(".outline").hidden = true;
  build();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  let width = place.clientWidth;
  new ResizeObserver(() => { if (place.clientWidth !== width) { width = place.clientWidth; for (const { plot } of charts) plot.setSize({ width, height: plot.height }); } }).observe(place);
  window.fitdoctor = { show, view, charts: () => charts.length };
})();
