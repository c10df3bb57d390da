// churn.js SECONDS FUNCTIONS: makes functions, runs each, some until they are optimized, and lets
// the garbage collector free them, so that code lies where other code lay before. It ends after that
// many seconds on a CPU and that many functions.
//
// made_KIND_I calls one function of node's own that nothing else here calls (Math.KIND is C++:
// v8::base::ieee754::KIND) and is called by run_KIND, which stays where it is: a profile that shows
// made_KIND_I beside another kind's functions is wrong.
const kinds = ['acos', 'asin', 'atan', 'cbrt', 'cosh', 'exp', 'expm1', 'log', 'log10', 'log1p',
               'log2', 'tan'];
const collectEach = 250;
// Not a multiple of the number of kinds, so that each kind is optimized at some time.
const optimizeEach = 49;
const callsToOptimize = 60;

function compile(source) {
  return new Function(`return ${source}`)();
}

function make(kind, i) {
  const step = `s = Math.${kind}(1 / (s * s + k + 1)) + ${i % 97}; t = (t * 31 + k) | 0;`;
  return compile(`function made_${kind}_${i}(n) {
    let s = 0; let t = ${i};
    for (let k = 0; k < n; k++) { ${step} }
    return s + t;
  }`);
}

const runners = kinds.map((kind) => compile(`function run_${kind}(made, calls) {
  let sum = 0;
  for (let k = 0; k < calls; k++) { sum += made(500); }
  return sum;
}`));

const end = Number(process.argv[2]) * 1e6;
const functions = Number(process.argv[3]);
let sum = 0;
for (let i = 0; i < functions || process.cpuUsage().user < end; i++) {
  const kind = i % kinds.length;
  const calls = i % optimizeEach === 0 ? callsToOptimize : 4;
  sum += runners[kind](make(kinds[kind], i), calls);
  if (i % collectEach === 0) {
    global.gc();
  }
}
console.log(sum);
