"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const el = id => document.getElementById(id);
const escape = t => String(t).replace(/[&<>"']/g, c => ({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;","'":"&#39;"}[c]));
const percent = (x, d = 1) => x == null ? "" : (100 * x).toFixed(d) + " %";
const charts = [];
addEventListener("resize", () => charts.forEach(c => c.resize()));
function chart(host, height, renderer = "svg") {
  const div = document.createElement("div");
  div.style.height = height + "px";
  host.appendChild(div);
  const c = echarts.init(div, null, { renderer });
  charts.push(c);
  return c;
}
const text = { color: css("--soft"), fontFamily: "system-ui, 'Segoe UI', sans-serif" };
const lines = { lineStyle: { color: css("--line") } };
const axis = extra => Object.assign({ axisLabel: text, nameTextStyle: text, splitLine: lines, axisLine: lines, axisTick: { show: false } }, extra);
const tooltip = { backgroundColor: css("--card"), borderColor: css("--line"), textStyle: { color: css("--ink"), fontSize: 13 } };
const palette = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#5b6ee1", "#86bcb6", "#d37295"];
