// What every page has: it hears of changes, and shows them.
import "./live.js";
import "./ticks.js";
import "./keys.js";
import "./act.js";
