// churn.js SECONDS: makes functions, runs each until it is optimized, and lets the collector take
// them, so that code lies where other code lay before.
const end = Date.now() + Number(process.argv[2]) * 1000;
let sum = 0;
for (let i = 0; Date.now() < end; i++) {
  const body = `let s = ${i}; for (let k = 0; k < n; k++) { s = (s * 31 + k) | 0; } return s;`;
  const made = new Function('n', `${body} //# sourceURL=made_${i}.js`);
  for (let k = 0; k < 60; k++) {
    sum += made(2000);
  }
  if (i % 500 === 0 && global.gc) {
    global.gc();
  }
}
console.log(sum);
