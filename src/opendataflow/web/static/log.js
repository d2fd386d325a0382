// Follows the log of a run that still runs: asks for the next part, and adds it as text.
const text = document.getElementById("text");
const box = document.getElementById("follow");
const EVERY = 1500;
const MOST = 2_000_000; // characters that stay on the page

if (text && box && text.dataset.part) {
  let at = text.dataset.at;
  box.parentElement.hidden = false;
  document.querySelector(".reload").hidden = true;
  text.scrollTop = text.scrollHeight;

  const look = async () => {
    let pause = EVERY;
    let isOver = false;
    if (box.checked && !document.hidden) {
      try {
        const answer = await fetch(`${text.dataset.part}?at=${at}`, { credentials: "same-origin" });
        if (answer.ok) {
          const part = await answer.json();
          const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
          if (part.text) {
            text.append(part.text);
            if (text.textContent.length > MOST) text.textContent = text.textContent.slice(-MOST / 2);
            if (isAtEnd) text.scrollTop = text.scrollHeight;
          }
          if (part.end > at || part.text) pause = part.end < part.size ? 50 : EVERY;
          at = part.end || at;
          isOver = part.is_over && part.end >= part.size;
        }
      } catch {
        pause = 5 * EVERY; // the server is gone; it may come back
      }
    }
    if (isOver) box.parentElement.hidden = true;
    else setTimeout(look, pause);
  };
  setTimeout(look, EVERY);
} else if (text && text.textContent && !location.search.includes("at=")) {
  text.scrollTop = text.scrollHeight;
}
