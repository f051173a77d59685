// Faults that a reader would see at once: texts of a picture that lie on each other or outside of it, letters that can hardly be told from the paper, a page
// that is wider than its window. Written into the page for the test that has opened it.
const complaints = [];

const inside = (inner, outer) =>
  inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
const overlap = (one, other) =>
  Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3;

let pictures = 0;
for (const picture of document.querySelectorAll("svg.picture")) {
  // The form for windows of another width.
  if (picture.getClientRects().length === 0) continue;
  pictures += 1;
  const frame = picture.getBoundingClientRect();
  const scale = frame.width / picture.viewBox.baseVal.width;
  for (const text of picture.querySelectorAll("text")) {
    const size = parseFloat(getComputedStyle(text).fontSize) * scale;
    if (size < 10.5) complaints.push(`"${text.textContent}" is ${size.toFixed(1)} pixels high`);
  }
  const texts = [...picture.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  texts.forEach(([words, place], at) => {
    if (!inside(place, frame)) complaints.push(`"${words}" leaves its picture`);
    for (const [others, elsewhere] of texts.slice(at + 1)) {
      if (overlap(place, elsewhere)) complaints.push(`"${words}" lies on "${others}"`);
    }
  });
}

const light = (colour) => {
  const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
const paper = getComputedStyle(document.body).backgroundColor;
let words = 0;
for (const element of document.querySelectorAll("h1, h2, h3, p, th, td, a, li, aside, svg text")) {
  const style = getComputedStyle(element);
  const ink = element.closest("svg") ? style.fill : style.color;
  words += 1;
  if (contrast(ink, paper) < 4.5) complaints.push(`"${element.textContent.slice(0, 40)}" is ${ink} on ${paper}`);
}

if (document.documentElement.scrollWidth > innerWidth) complaints.push("the page is wider than its window");

const said = document.createElement("pre");
said.id = "seen";
said.textContent = JSON.stringify({ pictures, words, dark: light(paper) < 0.2, complaints: [...new Set(complaints)] });
document.body.append(said);
