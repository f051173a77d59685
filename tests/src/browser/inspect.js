// Complaints about the looks of the page: text with too little contrast (WCAG 2.1 AA), letters in pictures too small to read, content wider than the window, tables of which a part is hidden without a sign, and cells that do not contain their contents.
(() => {
  const complaints = [];
  const channels = (color) => {
    const numbers = color.match(/[\d.]+/g).map(Number);
    return numbers.length < 4 ? numbers.concat(1) : numbers;
  };
  const over = (top, bottom) => [0, 1, 2].map((at) => top[at] * top[3] + bottom[at] * (1 - top[3])).concat(1);
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((one) => {
      const value = one / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(channels(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility() || element.closest("script, style, option")) continue;
    const height = element.getBoundingClientRect().height;
    if (element.closest("svg") && height < 9) complaints.push(`letters of ${height.toFixed(1)} pixels: ${text.slice(0, 40)}`);
    const style = getComputedStyle(element);
    const behind = ground(element);
    const front = over(channels(element.closest("svg") ? style.fill : style.color), behind);
    const [bright, dark] = [luminance(front), luminance(behind)].sort((one, other) => other - one);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (bright + 0.05) / (dark + 0.05);
    if (ratio < (large ? 3 : 4.5)) complaints.push(`contrast ${ratio.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) {
    const culprits = Array.from(document.querySelectorAll("body *")).filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1 && !one.closest(".scroll"));
    complaints.push(`${wide} pixels wider than the window: ` + culprits.slice(0, 3).map((one) => one.outerHTML.slice(0, 120)).join(" | "));
  }
  for (const part of document.querySelectorAll(".scroll")) {
    const hidden = part.scrollWidth - part.clientWidth;
    if (hidden > 0 && !getComputedStyle(part).backgroundImage.includes("gradient")) complaints.push(`${hidden} pixels of a table hidden without a sign`);
  }
  for (const cell of document.querySelectorAll("td, th")) {
    const bottom = cell.getBoundingClientRect().bottom + 1;
    const outside = Array.from(cell.querySelectorAll("*")).find((one) => one.checkVisibility() && one.getBoundingClientRect().bottom > bottom);
    if (outside) complaints.push("below its cell: " + outside.outerHTML.slice(0, 120));
  }
  for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea, button")) {
    const name = control.labels?.length || control.getAttribute("aria-label") || control.textContent.trim();
    if (!name) complaints.push("a control without a name: " + control.outerHTML.slice(0, 120));
  }
  return complaints;
})()
