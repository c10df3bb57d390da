// busy.js SECONDS: most of the time in fib and mix, in about equal parts.
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

const end = Date.now() + Number(process.argv[2]) * 1000;
let sum = 0;
while (Date.now() < end) {
  sum += fib(25) + mix(200000);
}
console.log(sum);
