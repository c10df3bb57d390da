<?php
// Functions with 60, 25 and 15 % of the CPU time, all of it in opcodes.
//
//     php shares.php SECONDS

function work_f($count) {
    $total = 0;
    for ($i = 0; $i < $count; $i++) {
        $total += $i * $i & 7;
    }
    return $total;
}

function work_g($count) {
    $total = 0;
    for ($i = 0; $i < $count; $i++) {
        $total += $i * $i & 7;
    }
    return $total;
}

function work_h($count) {
    $total = 0;
    for ($i = 0; $i < $count; $i++) {
        $total += $i * $i & 7;
    }
    return $total;
}

function used_ns() {
    $usage = getrusage();
    return 1000 * (1000000 * ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'])
        + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']);
}

class Worker {
    public $used = ['work_f' => 0, 'work_g' => 0, 'work_h' => 0];

    public function measure($function, $count) {
        $started = used_ns();
        $function($count);
        $this->used[$function] += used_ns() - $started;
    }

    public function round() {
        $this->measure('work_f', 600000);
        $this->measure('work_g', 250000);
        $this->measure('work_h', 150000);
    }
}

$worker = new Worker();
$end = used_ns() + 1e9 * (float) $argv[1];
while (used_ns() < $end) {
    $worker->round();
}
$cases = [];
foreach ($worker->used as $name => $used) {
    $cases[] = ['name' => $name, 'ns' => $used, 'stack' => []];
}
echo json_encode(['python' => ['cases' => $cases, 'version' => [PHP_MAJOR_VERSION, PHP_MINOR_VERSION,
    PHP_RELEASE_VERSION]]]), "\n";
