<?php
// PHP functions that C functions call, generators, methods and closures. Each case calls its callee from one line: first
// a function that stores PHP's own view of the stack, and then one of C that takes long.

const ALGORITHM = 'sha256';
const ITERATIONS = 20000;

final class Cases {
    private $cases = [];
    private $stack = null;

    // The functions of the stack, leaf first, each with the line that it is at: that of a frame is in the entry of the
    // one that it called. Functions of C have none.
    public function probe($algorithm, $password, $salt, $iterations) {
        if ($this->stack !== null) {
            return '';
        }
        $trace = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS);
        $this->stack = [['hash_pbkdf2', 0]];
        for ($i = 1; $i < count($trace); $i++) {
            $class = $trace[$i]['class'] ?? null;
            $name = ($class === null ? '' : $class . '::') . $trace[$i]['function'];
            $this->stack[] = [$name, $trace[$i - 1]['line'] ?? 0];
        }
        $this->stack[] = ['{main}', $trace[count($trace) - 1]['line'] ?? 0];
        return '';
    }

    private static function used_ns() {
        $usage = getrusage();
        return 1000 * (1000000 * ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'])
            + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']);
    }

    public function run($function) {
        $this->stack = null;
        $used = 0;
        $callee = [$this, 'probe'];
        while ($used < 4e8) {
            $started = self::used_ns();
            $function($callee);
            if ($callee === 'hash_pbkdf2') {
                $used += self::used_ns() - $started;
            }
            $callee = 'hash_pbkdf2';
        }
        $this->cases[] = ['name' => $this->stack[0][0], 'ns' => $used, 'stack' => $this->stack];
    }

    public function print_all() {
        echo json_encode(['python' => ['cases' => $this->cases, 'version' => [PHP_MAJOR_VERSION, PHP_MINOR_VERSION,
            PHP_RELEASE_VERSION]]]), "\n";
    }
}

function plain($callee) {
    return $callee(ALGORITHM, 'p', 's', ITERATIONS);
}

function by_map($callee) {
    return array_map(function ($item) use ($callee) {
        return $callee(ALGORITHM, 'p', $item, ITERATIONS);
    }, ['a', 'b']);
}

function by_sort($callee) {
    $items = [2, 1];
    usort($items, function ($left, $right) use ($callee) {
        $callee(ALGORITHM, 'p', 's', ITERATIONS);
        return $left - $right;
    });
    return $items;
}

function by_replace($callee) {
    return preg_replace_callback('/x/', function ($match) use ($callee) {
        return $callee(ALGORITHM, 'p', 's', ITERATIONS);
    }, 'axb');
}

class Service {
    public $value;

    public function __construct($callee) {
        $this->value = $callee(ALGORITHM, 'p', 's', ITERATIONS);
    }

    public static function make($callee) {
        return new self($callee);
    }

    public function __toString() {
        return 'service';
    }
}

function by_constructor($callee) {
    return (string) Service::make($callee);
}

function generated($callee) {
    yield 1;
    yield $callee(ALGORITHM, 'p', 's', ITERATIONS);
}

function by_generator($callee) {
    foreach (generated($callee) as $value) {
        $last = $value;
    }
    return $last;
}

function by_recursion($callee, $depth = 30) {
    if ($depth > 0) {
        return by_recursion($callee, $depth - 1);
    }
    return $callee(
        ALGORITHM,
        'p',
        's',
        ITERATIONS
    );
}

function by_call_user_func($callee) {
    return call_user_func_array('plain', [$callee]);
}

$cases = new Cases();
foreach (['plain', 'by_map', 'by_sort', 'by_replace', 'by_constructor', 'by_generator', 'by_recursion',
    'by_call_user_func'] as $function) {
    $cases->run($function);
}
$cases->print_all();
