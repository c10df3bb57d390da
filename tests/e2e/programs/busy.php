<?php
// busy.php SECONDS: for so long on a CPU, most of the time in fib and mix.
function fib($n) {
    return $n < 2 ? $n : fib($n - 1) + fib($n - 2);
}

function mix($n) {
    $sum = 0;
    for ($i = 0; $i < $n; $i++) {
        $sum += $i * ($i & 7);
    }
    return $sum;
}

function used() {
    $usage = getrusage();
    return $usage['ru_utime.tv_sec'] + $usage['ru_utime.tv_usec'] / 1e6;
}

$end = (float)$argv[1];
$sum = 0;
while (used() < $end) {
    $sum += fib(20) + mix(50000);
}
echo $sum, "\n";
