// busy.js SECONDS: for so long on a CPU, most of the time in fib and mix, in about equal parts.
//
// Nothing is inlined: V8 compiles this loop, too, after some seconds, the sooner the faster the
// machine is, and would take mix into it.
require('v8').setFlagsFromString('--no-turbo-inlining');

function fib(n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

function mix(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) {
    sum += Math.sqrt(i) * (i & 7);
  }
  return sum;
}

const end = Number(process.argv[2]) * 1e6;
let sum = 0;
while (process.cpuUsage().user < end) {
  sum += fib(25) + mix(200000);
}
console.log(sum);
