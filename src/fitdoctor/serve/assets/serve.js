"use strict";
// Asks the server now and then how far the runs under way are. Text from a capture is only ever set as text.
(() => {
  const main = document.getElementById("main");
  const address = main && main.dataset.live;
  if (!address) return;
  const svg = "http://www.w3.org/2000/svg";
  const EVERY = 2000, HIDDEN = 15000;
  const LETTER = 9, ROOM = 20; // pixels that the name of a piece of a bar needs

  const made = (name, words, look) => {
    const element = document.createElement(name);
    if (words) element.textContent = words;
    if (look) element.className = look;
    return element;
  };

  const bar = (parts, width) => {
    const drawing = document.createElementNS(svg, "svg");
    const attributes = {
      width: "100%", height: 36, class: "bar", role: "img",
      "aria-label": "one step: " + parts.map((part) => part.name + " " + part.text).join("; "),
    };
    for (const [name, value] of Object.entries(attributes)) drawing.setAttribute(name, value);
    let at = 0;
    for (const part of parts) {
      const piece = document.createElementNS(svg, "rect");
      const left = 100 * at + "%";
      const place = { x: left, width: 100 * part.share + "%", height: "100%", class: part.look };
      for (const [name, value] of Object.entries(place)) piece.setAttribute(name, value);
      drawing.append(piece);
      if (part.share * width > ROOM + LETTER * part.name.length) {
        const words = document.createElementNS(svg, "text");
        const there = { x: left, dx: 10, y: "50%", dy: "0.35em", class: "on-" + part.look };
        for (const [name, value] of Object.entries(there)) words.setAttribute(name, value);
        words.textContent = part.name;
        drawing.append(words);
      }
      at += part.share;
    }
    return drawing;
  };

  const legend = (parts) => {
    const list = made("ul", "", "legend");
    for (const part of parts) {
      const item = made("li");
      item.append(made("i", "", "swatch " + part.look), part.name + " " + part.text);
      list.append(item);
    }
    return list;
  };

  const finding = (found) => {
    const item = made("li");
    item.append(made("b", found.rule), " ", made("span", "saves " + found.saves, "saves"), made("p", found.because));
    if (found.site) item.append(made("code", found.site));
    return item;
  };

  const fill = (card, run) => {
    if (card.dataset.shown === JSON.stringify(run)) return;
    card.dataset.shown = JSON.stringify(run);
    card.querySelector(".now").textContent = run.now;
    card.querySelector(".headline").textContent = run.headline;
    const step = card.querySelector(".step");
    step.replaceChildren();
    if (run.parts.length) step.append(made("p", "One step " + run.step), bar(run.parts, step.clientWidth), legend(run.parts));
    card.querySelector(".found").replaceChildren(...run.findings.map(finding));
  };

  const renew = async () => {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const link = document.activeElement && document.activeElement.getAttribute("href");
    main.replaceChildren(...page.getElementById("main").childNodes);
    const again = link && [...main.querySelectorAll("a")].find((each) => each.getAttribute("href") === link);
    if (again) again.focus();
  };

  const look = async () => {
    try {
      const said = await (await fetch(address, { cache: "no-store" })).json();
      const stamp = document.getElementById("stamp");
      if (stamp && stamp.textContent !== said.stamp) await renew();
      for (const card of main.querySelectorAll("[data-run]")) {
        const run = said.runs[card.dataset.run];
        if (run) fill(card, run);
        else if (!stamp) return location.reload();
      }
    } catch (error) {
      for (const each of main.querySelectorAll(".now")) each.textContent = "fitdoctor serve does not answer any more";
    }
    setTimeout(look, document.hidden ? HIDDEN : EVERY);
  };
  look();
})();
