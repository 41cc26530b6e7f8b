// Elements from data. Text is always text: nothing that a client sent can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** h("p", {class: "note"}, "text", child) */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** At most one call in so many milliseconds, at their end; the last one is never lost. */
export function throttled(delay, action) {
  let timer = null;
  let latest = null;
  return (...given) => {
    latest = given;
    if (timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      action(...latest);
    }, delay);
  };
}

/** At most one call in so many milliseconds: the first at once, and once more at their end if there was another. */
export function promptly(delay, action) {
  let timer = null;
  let again = false;
  const call = () => {
    again = false;
    timer = setTimeout(() => {
      timer = null;
      if (again) call();
    }, delay);
    action();
  };
  return () => {
    if (timer === null) call();
    else again = true;
  };
}

/** Copies a text, and says so. */
export function copyButton(text, label = "Copy") {
  return h("button", {
    class: "quiet copy", type: "button", title: label, "aria-label": label,
    onclick: async (event) => {
      const button = event.currentTarget;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        button.textContent = "not allowed";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1200);
    },
  }, "copy");
}
